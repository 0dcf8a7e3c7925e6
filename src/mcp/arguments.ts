import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import type { JsonSchema } from '../model/json-schema.ts';
import { escapeControls, nearest } from '../model/text.ts';
import { ArgumentError, type Arguments, type Tool } from './tool.ts';

type Properties = Readonly<Record<string, JsonSchema>>;

/** Checks arguments against the schema that was listed, having taken them for what they plainly mean. */
export class ArgumentCheck {
  private readonly properties: Properties;
  private readonly validate: ValidateFunction;

  constructor(ajv: Ajv2020, tool: Tool) {
    const schema = tool.definition.inputSchema as JsonSchema;
    this.properties = (schema.properties ?? {}) as Properties;
    const judged = Object.fromEntries((tool.judgedByGates ?? []).map(name => [name, {}]));
    this.validate = ajv.compile({ ...schema, properties: { ...this.properties, ...judged } });
  }

  /** @throws ArgumentError that says what would be accepted */
  accept(raw: unknown): Arguments {
    const given = typeof raw === 'object' && raw !== null && !Array.isArray(raw) ? (raw as Record<string, unknown>) : {};
    const args = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, plainly(value, this.properties[name])]));
    if (this.validate(args)) return args;
    // What each branch of a choice lacks says less than what there is to choose from.
    const errors = (this.validate.errors ?? []).filter(error => !error.schemaPath.includes('/anyOf/'));
    throw new ArgumentError(errors.map(error => describe(error, Object.keys(this.properties))).join('; '));
  }
}

export function newAjv(): Ajv2020 {
  return new Ajv2020({ allErrors: true, verbose: true, allowUnionTypes: true, strict: false, validateFormats: false });
}

/** A number sent as `"21.5"` or a boolean as `"true"`, where the schema wants just that. */
function plainly(value: unknown, schema: JsonSchema | undefined): unknown {
  if (typeof value !== 'string' || schema === undefined) return value;
  if (schema.type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  if ((schema.type === 'number' || schema.type === 'integer') && /^[+-]?(\d+\.?\d*|\.\d+)$/.test(value.trim())) return Number(value);
  return value;
}

function describe(error: ErrorObject, known: readonly string[]): string {
  const where = error.instancePath.slice(1).replaceAll('/', '.') || 'arguments';
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case 'additionalProperties': {
      const name = String(params.additionalProperty);
      const near = nearest(name, known, 1);
      return `unknown argument ${JSON.stringify(escapeControls(name))}${near.length > 0 ? `, did you mean ${near[0]}?` : `; this tool takes ${known.length === 0 ? 'none' : known.join(', ')}`}`;
    }
    case 'required':
      return `${String(params.missingProperty)} is missing`;
    case 'enum':
      return `${where}: one of ${(params.allowedValues as unknown[]).map(String).join(', ')} is expected, got ${show(error.data)}`;
    case 'anyOf':
      return `${where}: ${(error.schema as readonly JsonSchema[]).map(({ type }) => String(type)).join(' or ')} is expected, got ${show(error.data)}`;
    case 'type':
      return `${where}: ${String(params.type).replaceAll(',', ' or ')} is expected, got ${show(error.data)}`;
    default:
      return `${where}: ${error.message ?? 'is not accepted'}, got ${show(error.data)}`;
  }
}

function show(value: unknown): string {
  const text = escapeControls(JSON.stringify(value) ?? 'nothing');
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
