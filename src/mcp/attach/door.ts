import type { JSONRPCMessage, JSONRPCRequest } from '@modelcontextprotocol/server';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { systemReason } from '../../model/errors.ts';
import { ATTACHED } from '../exchange.ts';
import { encodeHeader } from '../param-headers.ts';

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
/** What of a request its `Mcp-Name` header repeats (MCP 2026-07-28, Streamable HTTP). */
const NAMED_BY: Readonly<Record<string, string>> = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' };

/** The bridge could not be asked at all: nothing came of the request. */
export class UnreachableError extends Error {}
/** The bridge lets this caller in not at all: asking again would not help. */
export class RefusedError extends Error {}
/** The connection ended in the middle: what came of the request is not known. */
export class LostError extends Error {}

export interface Reply {
  readonly status: number;
  readonly session: string | undefined;
  /** The messages of the reply, with the id of their event where they have one. Throws LostError where the stream breaks. */
  readonly messages: AsyncIterable<{ readonly message: JSONRPCMessage | undefined; readonly eventId: string | undefined }>;
}

/** What a request of 2026-07-28 says of itself; undefined for one of the revisions before. */
export function modernVersion({ params }: { readonly params?: { readonly _meta?: unknown } | undefined }): string | undefined {
  const version = (params?._meta as Readonly<Record<string, unknown>> | undefined)?.[VERSION_KEY];
  return typeof version === 'string' ? version : undefined;
}

/** Headers that repeat what the body of a request of 2026-07-28 says. */
export function modernHeaders({ method, params }: JSONRPCRequest, version: string): Record<string, string> {
  const name = (params as Readonly<Record<string, unknown>> | undefined)?.[NAMED_BY[method] ?? ''];
  return {
    'mcp-protocol-version': version,
    'mcp-method': encodeHeader(method),
    ...(typeof name === 'string' && { 'mcp-name': encodeHeader(name) }),
  };
}

/** The HTTP door of a running bridge. */
export class Door {
  readonly url: string;
  private readonly token: string | undefined;

  constructor(url: string, token: string | undefined) {
    this.url = url;
    this.token = token;
  }

  /** @throws UnreachableError or LostError */
  async request(
    method: 'GET' | 'POST' | 'DELETE',
    headers: Readonly<Record<string, string>>,
    body: object | undefined,
    signal: AbortSignal,
  ): Promise<Reply> {
    let response: Response;
    try {
      response = await fetch(this.url, {
        method,
        headers: {
          accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          [ATTACHED]: 'stdio',
          ...(this.token !== undefined && { authorization: `Bearer ${this.token}` }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal,
        redirect: 'error',
      });
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
      // A connection that was taken and then ended may have carried the request.
      if (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET' || code === 'EPIPE') throw new LostError('the connection ended');
      throw new UnreachableError(systemReason((error as Error).cause ?? error));
    }
    // Whoever is not let in has asked for nothing.
    if (response.status === 401 || response.status === 403 || response.status === 429) {
      await response.text().catch(() => '');
      throw new RefusedError(
        response.status === 429
          ? 'has had too many wrong tokens (HTTP 429); wait a minute'
          : `refuses the caller (HTTP ${response.status}); give its token in FIELDBRIDGE_TOKEN or with --token-file`,
      );
    }
    return {
      status: response.status,
      session: response.headers.get('mcp-session-id') ?? undefined,
      messages: messagesOf(response),
    };
  }
}

async function* messagesOf(response: Response): Reply['messages'] {
  const type = response.headers.get('content-type') ?? '';
  if (!type.startsWith('text/event-stream') || response.body === null) {
    const text = await response.text().catch(() => '');
    if (!type.startsWith('application/json') || text === '') return;
    const value = parse(text);
    for (const message of Array.isArray(value) ? value : [value]) yield { message: message as JSONRPCMessage, eventId: undefined };
    return;
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield { message: value.data === '' ? undefined : (parse(value.data) as JSONRPCMessage), eventId: value.id };
    }
  } catch {
    throw new LostError('the connection ended');
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
