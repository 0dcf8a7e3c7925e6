import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import type { JsonSchema } from '../model/json-schema.ts';
import type { ConfigPath } from '../model/protocol.ts';
import { escapeControls, nearest } from '../model/text.ts';

type Plain = { [key: string]: unknown };

export interface Mistake {
  readonly path: ConfigPath;
  readonly message: string;
  readonly at: 'key' | 'value';
}

/** Checks of grammars that were made already: making one takes longer than all that it checks. */
const made = new WeakMap<JsonSchema, ValidateFunction>();

/** Checks a map against the grammar and says each mistake in words, once. */
export function validate(schema: JsonSchema, value: unknown, secret: (path: ConfigPath) => boolean): Mistake[] {
  const check = made.get(schema) ?? compile(schema);
  made.set(schema, check);
  if (check(value)) return [];
  const mistakes = (check.errors ?? []).flatMap(error => describe(error, secret));
  return withoutEchoes(mistakes);
}

function compile(schema: JsonSchema): ValidateFunction {
  const ajv = new Ajv2020({
    allErrors: true,
    verbose: true,
    strict: true,
    allowUnionTypes: true,
    strictRequired: false,
    strictTypes: false,
    // One function for each part: all in one has so many names that V8, which keeps a shape for each, has no room left for others'.
    inlineRefs: false,
    // Used once or twice in a process: what would make it faster takes longer than it saves. The grammar is ours, and a test
    // holds it against its own grammar.
    code: { optimize: false },
    meta: false,
    validateSchema: false,
  });
  ajv.addKeyword({ keyword: 'expected', schemaType: 'string' });
  ajv.addKeyword({ keyword: 'fileContent', schemaType: 'boolean' });
  ajv.addKeyword({
    keyword: 'exactlyOne',
    schemaType: 'array',
    type: 'object',
    validate: (keys: string[], data: Plain, parent?: Plain) => {
      const present = keys.filter(key => key in data).length;
      const { write } = data as { write?: unknown };
      const inWrite = (parent?.orInWrite ?? []) as string[];
      if (present === 0 && typeof write === 'object' && write !== null && inWrite.some(key => key in write)) return true;
      return present === 1 || keys.length === 0;
    },
  });
  ajv.addKeyword({ keyword: 'orInWrite', schemaType: 'array' });
  return ajv.compile(schema);
}

/** One value that fails several alternatives, or is refused as a whole, is one mistake. */
function withoutEchoes(mistakes: readonly Mistake[]): Mistake[] {
  const byPath = new Map<string, Mistake>();
  for (const mistake of mistakes) {
    const key = JSON.stringify(mistake.path);
    if (!byPath.has(key)) byPath.set(key, mistake);
  }
  return [...byPath.values()];
}

function describe(error: ErrorObject, secret: (path: ConfigPath) => boolean): Mistake[] {
  const path = pathOf(error.instancePath);
  const parent = (error.parentSchema ?? {}) as Plain;
  const expected = typeof parent.expected === 'string' ? parent.expected : undefined;
  const got = secret(path) ? 'a secret' : show(error.data);
  const wrong = (message: string): Mistake[] => [{ path, message, at: 'value' }];
  const params = error.params as Plain;
  switch (error.keyword) {
    case 'if':
    case 'allOf':
    case '$ref':
    case 'propertyNames':
      return [];
    case 'additionalProperties': {
      const key = String(params.additionalProperty);
      return [{ path: [...path, key], message: unknownKey(key, Object.keys((parent.properties ?? {}) as Plain)), at: 'key' }];
    }
    case 'required': {
      const key = String(params.missingProperty);
      return [{ path: [...path, key], message: `${key} is missing`, at: 'key' }];
    }
    case 'exactlyOne': {
      const keys = error.schema as string[];
      const present = keys.filter(key => key in (error.data as Plain));
      const has = present.length === 0 ? 'it has none of them' : `it has ${present.join(' and ')}`;
      return [{ path, message: `exactly one of ${keys.join(', ')} is expected; ${has}`, at: 'key' }];
    }
    default:
      break;
  }
  if (error.propertyName !== undefined) {
    return [
      {
        path: [...path, error.propertyName],
        message: `${quote(error.propertyName)} is no valid name; expected ${expected ?? error.message}`,
        at: 'key',
      },
    ];
  }
  // Inside an anyOf the alternatives fail one by one; the value is told once what is expected, by the anyOf itself.
  if (/\/anyOf\/\d+\//.test(error.schemaPath)) return [];
  if (expected !== undefined) return wrong(`expected ${expected}; got ${got}`);
  switch (error.keyword) {
    case 'type':
      return wrong(`expected ${article(String(params.type))}; got ${got}`);
    case 'enum': {
      const allowed = (params.allowedValues as unknown[]).map(String);
      const near = typeof error.data === 'string' ? nearest(error.data, allowed, 1) : [];
      return wrong(`expected one of ${allowed.join(', ')}; got ${got}${near.length > 0 ? `, did you mean ${near[0]}?` : ''}`);
    }
    case 'const':
      return wrong(`expected ${String(params.allowedValue)}; got ${got}`);
    case 'minimum':
    case 'exclusiveMinimum':
    case 'maximum':
    case 'exclusiveMaximum':
      return wrong(`expected a number ${String(params.comparison)} ${String(params.limit)}; got ${got}`);
    case 'minItems':
    case 'minLength':
    case 'minProperties':
      return wrong('must not be empty');
    default:
      return wrong(`${error.message ?? 'is not accepted'}; got ${got}`);
  }
}

function unknownKey(key: string, known: readonly string[]): string {
  const near = nearest(key, known, 1);
  return `unknown key ${escapeControls(key)}${near.length > 0 ? `, did you mean ${near[0]}?` : known.length > 0 && known.length <= 12 ? `; known here: ${known.join(', ')}` : ''}`;
}

function pathOf(pointer: string): ConfigPath {
  return pointer
    .split('/')
    .slice(1)
    .map(part => part.replace(/~1/g, '/').replace(/~0/g, '~'))
    .map(part => (/^\d+$/.test(part) ? Number(part) : part));
}

function article(type: string): string {
  const names: Record<string, string> = {
    object: 'a map of keys',
    array: 'a list',
    integer: 'a whole number',
    number: 'a number',
    string: 'text',
    boolean: 'true or false',
  };
  return type
    .split(',')
    .map(one => names[one] ?? one)
    .join(' or ');
}

function quote(text: string): string {
  return JSON.stringify(escapeControls(text));
}

function show(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'a map of keys';
  if (typeof value === 'string') return quote(value.length > 60 ? `${value.slice(0, 57)}…` : value);
  return value === null || value === undefined ? 'nothing' : String(value);
}
