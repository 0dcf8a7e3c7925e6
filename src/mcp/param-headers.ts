import type { IncomingHttpHeaders } from 'node:http';
import type { JsonSchema } from '../model/json-schema.ts';

const PREFIX = 'Mcp-Param-';
const SENTINEL = /^=\?base64\?(.*)\?=$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

interface Mismatch {
  readonly message: string;
  readonly data: { readonly header: string; readonly body: string };
}

/**
 * Arguments that travel in a header too, for gateways that do not read bodies, have to be the same there (MCP 2026-07-28,
 * Streamable HTTP, `x-mcp-header`).
 *
 * @returns what disagrees, or undefined
 */
export function mismatchedHeader(schema: JsonSchema, args: unknown, headers: IncomingHttpHeaders): Mismatch | undefined {
  for (const [name, property] of Object.entries((schema.properties ?? {}) as Readonly<Record<string, JsonSchema>>)) {
    const suffix = property['x-mcp-header'];
    const value = (args as Readonly<Record<string, unknown>> | null | undefined)?.[name];
    if (typeof suffix !== 'string' || value === undefined || value === null || typeof value === 'object') continue;
    const header = `${PREFIX}${suffix}`;
    const given = headers[header.toLowerCase()];
    const decoded = typeof given === 'string' ? decodeHeader(given) : undefined;
    if (decoded === String(value)) continue;
    const what =
      given === undefined ? 'is absent' : decoded === undefined ? 'is no valid Base64' : `says ${JSON.stringify(decoded)} instead`;
    const body = `${name}=${JSON.stringify(value)}`;
    return { message: `the arguments have ${body}, but the header ${header} ${what}`, data: { header, body } };
  }
  return undefined;
}

/** The headers that a call's arguments travel in besides, as its tool is listed. */
export function paramHeaders(schema: JsonSchema, args: unknown): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, property] of Object.entries((schema.properties ?? {}) as Readonly<Record<string, JsonSchema>>)) {
    const suffix = property['x-mcp-header'];
    const value = (args as Readonly<Record<string, unknown>> | null | undefined)?.[name];
    if (typeof suffix === 'string' && (typeof value === 'string' || typeof value === 'boolean' || Number.isSafeInteger(value)))
      headers[`${PREFIX}${suffix}`] = encodeHeader(String(value));
  }
  return headers;
}

/** A value that a header can not carry as it is goes as Base64. */
export function encodeHeader(text: string): string {
  const isPlain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !SENTINEL.test(text);
  return isPlain ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`;
}

/** @returns undefined for a value that claims to be Base64 and is none */
function decodeHeader(text: string): string | undefined {
  const [, base64] = SENTINEL.exec(text) ?? [];
  if (base64 === undefined) return text;
  if (!BASE64.test(base64)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(base64, 'base64'));
  } catch {
    return undefined;
  }
}
