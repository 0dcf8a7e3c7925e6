import { type IncomingMessage, request } from 'node:http';
import { request as requestTls } from 'node:https';
import type { SecureContextOptions } from 'node:tls';
import { onTestFinished } from 'vitest';

export interface Reply {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
}

interface RawRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly path?: string;
  /** Over TLS: whom to trust, and by what name the bridge is called. */
  readonly tls?: SecureContextOptions & { readonly servername: string };
}

const MCP_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** One request with every header as given, as no well-behaved client would send it. @returns the response as it begins */
export function open(endpoint: string, { method = 'POST', headers, body, path, tls }: RawRequest): Promise<IncomingMessage> {
  const url = new URL(endpoint);
  return new Promise((resolve, reject) => {
    const target = { host: url.hostname, port: url.port, path: path ?? url.pathname, method };
    const all = { ...MCP_HEADERS, ...(tls !== undefined && { host: tls.servername }), ...headers };
    const call =
      tls === undefined
        ? request({ ...target, headers: all }, resolve)
        : requestTls({ ...target, headers: all, ...tls, agent: false }, resolve);
    onTestFinished(() => void call.destroy());
    call.on('error', reject);
    call.end(body);
  });
}

/** The same, until the response has ended. */
export async function send(endpoint: string, options: RawRequest): Promise<Reply> {
  const response = await open(endpoint, options);
  let body = '';
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, body };
}

export interface RpcReply {
  readonly id: unknown;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** The JSON-RPC messages of a response, one JSON or a stream of events. */
export const messages = ({ body }: Reply): RpcReply[] =>
  [...body.matchAll(/^(?:data: )?([{[].*)$/gm)].map(([, json]) => JSON.parse(json ?? '') as RpcReply);

export const rpc = (method: string, params?: object, id: number | undefined = 2): string =>
  JSON.stringify({ jsonrpc: '2.0', ...(id !== undefined && { id }), method, ...(params !== undefined && { params }) });

export const initialize = (protocolVersion = '2025-11-25'): string =>
  rpc('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'raw', version: '1' } }, 1);

/** A session of an older client. @returns the headers that name it */
export async function openSession(
  endpoint: string,
  revision = '2025-11-25',
  more: Record<string, string> = {},
): Promise<Record<string, string>> {
  const opened = await send(endpoint, { headers: more, body: initialize(revision) });
  const headers = { 'mcp-session-id': String(opened.headers['mcp-session-id']), 'mcp-protocol-version': revision };
  await send(endpoint, { headers: { ...headers, ...more }, body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }) });
  return headers;
}

/** What a request of 2026-07-28 says of itself. */
export const MODERN_META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
};

/** One request of 2026-07-28, with the headers that it needs. */
export function modern(method: string, params: Readonly<Record<string, unknown>> = {}, headers: Record<string, string> = {}): RawRequest {
  const name = params.name ?? params.uri;
  return {
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
      ...headers,
    },
    body: rpc(method, { ...params, _meta: MODERN_META }),
  };
}

/** An event stream that collects what comes. */
export class EventReader {
  readonly events: { readonly id?: string; readonly method?: string; readonly uri?: string }[] = [];
  ended = false;
  private readonly response: IncomingMessage;

  constructor(response: IncomingMessage) {
    this.response = response;
    let text = '';
    response.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const parts = text.split('\n\n');
      text = parts.pop() ?? '';
      for (const part of parts) this.take(part);
    });
    for (const event of ['end', 'close', 'error'])
      response.on(event, () => {
        this.ended = true;
      });
  }

  get status(): number {
    return this.response.statusCode ?? 0;
  }

  close(): void {
    this.response.destroy();
  }

  private take(part: string): void {
    const id = /^id: (.*)$/m.exec(part)?.[1];
    const data = /^data: (\{.*)$/m.exec(part)?.[1];
    const message = data === undefined ? {} : (JSON.parse(data) as { method?: string; params?: { uri?: string } });
    if (id !== undefined || data !== undefined)
      this.events.push({
        ...(id !== undefined && { id }),
        ...(message.method !== undefined && { method: message.method }),
        ...(message.params?.uri !== undefined && { uri: message.params.uri }),
      });
  }
}
