import { DURATION_PATTERN } from './duration.ts';
import { SIZE_PATTERN } from './size.ts';

/** A JSON Schema (draft 2020-12) as plain data. */
export type JsonSchema = { readonly [keyword: string]: unknown };

export const object = (
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[] = [],
  more: JsonSchema = {},
): JsonSchema => ({
  type: 'object',
  properties,
  ...(required.length > 0 && { required }),
  additionalProperties: false,
  ...more,
});

/** `expected` is said when a value does not fit. */
export const duration = (description: string, byDefault?: string): JsonSchema => ({
  type: 'string',
  pattern: DURATION_PATTERN,
  expected: 'a duration such as 250ms, 1s, 5m or 1h',
  ...(byDefault !== undefined && { default: byDefault }),
  description,
});

export const size = (description: string, byDefault: string): JsonSchema => ({
  type: 'string',
  pattern: SIZE_PATTERN,
  expected: 'a size such as 64kB or 1MB',
  default: byDefault,
  description,
});

export const count = (description: string, byDefault: number): JsonSchema => ({
  type: 'integer',
  minimum: 1,
  maximum: 100_000,
  default: byDefault,
  description,
});
