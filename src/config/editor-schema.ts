import type { JsonSchema } from '../model/json-schema.ts';

type Plain = { [key: string]: unknown };

const SECRET = {
  type: 'object',
  description: 'The text from the environment or from a file',
  additionalProperties: false,
  minProperties: 1,
  maxProperties: 1,
  properties: {
    env: { type: 'string', description: 'Name of an environment variable' },
    file: { type: 'string', description: 'Path of a file, relative to this one' },
  },
};

/**
 * The grammar in plain JSON Schema, as editors understand it: the bridge's own keywords are said in standard ones, and
 * wherever a key takes text, it may also take `{ env: NAME }` or `{ file: path }`.
 */
export function editorSchema(schema: JsonSchema): JsonSchema {
  const root = translate(schema) as Plain;
  return { ...root, $defs: { ...(root.$defs as Plain), secret: SECRET } };
}

function translate(value: unknown, isProperty = false): unknown {
  if (Array.isArray(value)) return value.map(item => translate(item));
  if (typeof value !== 'object' || value === null) return value;
  const node = value as Plain;
  const result: Plain = {};
  for (const [key, item] of Object.entries(node)) {
    if (key === 'expected' || key === 'fileContent' || key === 'exactlyOne' || key === 'orInWrite') continue;
    if (key === 'properties')
      result[key] = Object.fromEntries(Object.entries(item as Plain).map(([name, one]) => [name, translate(one, true)]));
    else result[key] = translate(item);
  }
  if (typeof node.expected === 'string') result.description = [node.description, `Expected: ${node.expected}`].filter(Boolean).join('. ');
  if (Array.isArray(node.exactlyOne)) {
    const one = node.exactlyOne.map(key => ({ required: [key] }));
    const inWrite = (node.orInWrite as string[] | undefined)?.map(key => ({
      required: ['write'],
      properties: { write: { type: 'object', required: [key], description: 'What is published to change it' } },
      not: { anyOf: one },
    }));
    result.oneOf = [...one, ...(inWrite ?? [])];
  }
  if (!isProperty || node.type !== 'string') return result;
  const { description, default: byDefault, ...rest } = result;
  return {
    ...(description !== undefined && { description }),
    ...(byDefault !== undefined && { default: byDefault }),
    anyOf: [rest, { $ref: '#/$defs/secret' }],
  };
}
