import { Agent, type IncomingMessage, request } from 'node:http';

/** What a serving process tells of itself: bytes, and counts of what is open. */
export interface McpReport {
  readonly heap: number;
  readonly rss: number;
  readonly sessions: number;
  readonly streams: number;
  readonly timers: number;
  readonly sockets: number;
}

export const kinds = ['2025-11-25', '2026-07-28'] as const;
export type Kind = (typeof kinds)[number];

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
};

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** One client, as plain as can be: no parsing of what comes, so that what is measured is the server's. */
export class PlainClient {
  private readonly endpoint: URL;
  private readonly kind: Kind;
  private session: string | undefined;
  private count = 0;

  constructor(endpoint: string, kind: Kind) {
    this.endpoint = new URL(endpoint);
    this.kind = kind;
  }

  /** A session, where the revision has them. */
  async connect(): Promise<void> {
    if (this.kind === '2026-07-28') return;
    const params = { protocolVersion: this.kind, capabilities: {}, clientInfo: { name: 'bench', version: '1' } };
    const response = await this.send('POST', { jsonrpc: '2.0', id: 0, method: 'initialize', params });
    this.session = String(response.headers['mcp-session-id']);
    await drain(response);
    await drain(await this.send('POST', { jsonrpc: '2.0', method: 'notifications/initialized' }));
  }

  async call(method: string, params: Readonly<Record<string, unknown>>): Promise<string> {
    return await drain(await this.open(method, params));
  }

  /** A stream of notifications about a resource. @returns how to end it */
  async listen(uri: string, hear: () => void): Promise<() => void> {
    const own = new Agent({ keepAlive: false });
    let response: IncomingMessage;
    if (this.kind === '2026-07-28')
      response = await this.open('subscriptions/listen', { notifications: { resourceSubscriptions: [uri] } }, own);
    else {
      await this.call('resources/subscribe', { uri });
      response = await this.send('GET', undefined, {}, own);
    }
    response.on('error', () => undefined);
    response.on('data', (chunk: Buffer) => {
      if (chunk.includes('resources/updated')) hear();
    });
    return () => response.destroy();
  }

  async end(): Promise<void> {
    if (this.session !== undefined) await drain(await this.send('DELETE', undefined));
  }

  private open(method: string, params: Readonly<Record<string, unknown>>, by?: Agent): Promise<IncomingMessage> {
    const id = ++this.count;
    if (this.kind !== '2026-07-28') return this.send('POST', { jsonrpc: '2.0', id, method, params }, {}, by);
    const headers = {
      'mcp-protocol-version': this.kind,
      'mcp-method': method,
      ...(typeof params.name === 'string' && { 'mcp-name': params.name }),
    };
    return this.send('POST', { jsonrpc: '2.0', id, method, params: { ...params, _meta: META } }, headers, by);
  }

  private send(method: string, body: object | undefined, more: Record<string, string> = {}, by: Agent = agent): Promise<IncomingMessage> {
    const headers = {
      accept: 'application/json, text/event-stream',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(this.session !== undefined && { 'mcp-session-id': this.session, 'mcp-protocol-version': this.kind }),
      ...more,
    };
    return new Promise((resolve, reject) => {
      const call = request(this.endpoint, { method, headers, agent: by }, resolve);
      call.on('error', reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

async function drain(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
}

/** The value below which that share of them lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
