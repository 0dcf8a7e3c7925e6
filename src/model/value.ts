/**
 * An engineering value as the bridge holds it.
 *
 * Whole numbers beyond 2^53 are `bigint` when unscaled and a decimal `string` when scaled, so that neither is ever
 * rounded. Flags are the list of set labels. Times and bytes are text (RFC 3339, lower-case hexadecimal).
 */
export type Value = boolean | number | bigint | string | readonly string[] | null;

/** A value as JSON carries it: what JSON numbers cannot hold exactly travels as a decimal string. */
export type JsonValue = boolean | number | string | readonly string[] | null;

export function toJson(value: Value): JsonValue {
  return typeof value === 'bigint' ? value.toString() : value;
}

export function sameValue(a: Value, b: Value): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((label, i) => label === b[i]);
  return a === b;
}

/** The value as a number for comparisons of size; undefined where it has none (text, flags, no value). */
export function asNumber(value: Value): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value)) return Number(value);
  return undefined;
}

/** A value for a sentence: text from the field stands in quotes, so that it reads as data. */
export function showValue(value: Value | undefined): string {
  if (value === undefined || value === null) return 'no value';
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'object') return JSON.stringify(value);
  return String(value);
}
