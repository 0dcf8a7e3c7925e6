import type { IncomingMessage, ServerResponse } from 'node:http';

/** A request as a server receives it: with a method and an address. */
export type ServerRequest = IncomingMessage & { method: string; url: string };

/** Headers and body of a request disagree (MCP 2026-07-28, Streamable HTTP). */
export const HEADER_MISMATCH = -32020;

/** The revision that has batches; those after it do without (MCP 2025-06-18, changelog). */
export const BATCHING = '2025-03-26';

/** Revisions with initialize, the newest first. */
export const STDIO_REVISIONS = ['2025-11-25', '2025-06-18', BATCHING, '2024-11-05'] as const;

/** The header by which `stdio --attach` says that its client is on standard input and output. */
export const ATTACHED = 'fieldbridge-attached';

export const noBatch = (revision: unknown): string =>
  `Invalid Request: a batch of messages, which ${typeof revision === 'string' ? revision : 'this revision'} does not have, or an empty one`;

export const tooManyUris = (most: number): string =>
  `One connection subscribes to at most ${most} resources; subscribe to a device instead`;

/** The id under which a refusal of a message is told; null where it has none. */
export function idOf(body: unknown): string | number | null {
  const id = (body as { id?: unknown } | null | undefined)?.id;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

/** Whether a JSON value has the shape of one message (JSON-RPC 2.0, 4 and 5). */
export function isMessage(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { jsonrpc, method, id } = value as { jsonrpc?: unknown; method?: unknown; id?: unknown };
  if (jsonrpc !== '2.0' || !(id === undefined || id === null || typeof id === 'string' || typeof id === 'number')) return false;
  return typeof method === 'string' || 'result' in value || 'error' in value;
}

/** Answers with a JSON-RPC error. */
export function reject(
  response: ServerResponse,
  status: number,
  id: string | number | null,
  code: number,
  message: string,
  data?: object,
): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, ...(data !== undefined && { data }) } }));
}
