import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import { createMcpHandler, InMemoryServerEventBus, isInitializeRequest, isLegacyRequest, type Server } from '@modelcontextprotocol/server';
import type { Principal } from '../model/write.ts';
import type { Notice } from './notices.ts';
import { createServer, MAX_SUBSCRIBED_URIS, type ServerParts } from './server.ts';
import type { Subscriptions } from './subscriptions.ts';

const MAX_SESSIONS = 256;
const MAX_STREAMS = 256;
const IDLE_EXPIRY = 30 * 60_000;
const SWEEP = 60_000;

/** A request as a server receives it: with a method and an address. */
export type ServerRequest = IncomingMessage & { method: string; url: string };

interface Session {
  readonly id: string;
  readonly server: Server;
  readonly transport: NodeStreamableHTTPServerTransport;
  readonly subscribed: ReadonlySet<string>;
  readonly hear: (notice: Notice) => void;
  /** Requests and streams that are open now. */
  open: number;
  lastUsed: number;
}

/**
 * Streamable HTTP for clients of every revision: requests of 2026-07-28 each get a server of their own, older clients a
 * session with one. Host and origin were checked before.
 */
export class McpHttp {
  private readonly parts: ServerParts;
  private readonly principal: Principal;
  private readonly bus = new InMemoryServerEventBus();
  private readonly modern: ReturnType<typeof toNodeHandler>;
  private readonly handler: ReturnType<typeof createMcpHandler>;
  private readonly sessions = new Map<string, Session>();
  private readonly stopListening: () => void;
  private readonly stopHearing: () => void;
  private readonly sweeper: NodeJS.Timeout;

  constructor(parts: ServerParts, subscriptions: Subscriptions, principal: Principal) {
    this.parts = parts;
    this.principal = principal;
    const onerror = (error: Error): void => parts.log.debug({ err: error }, 'a request could not be served');
    this.handler = createMcpHandler(({ era }) => createServer(parts, era, principal).server, {
      legacy: 'reject',
      bus: this.bus,
      maxSubscriptions: MAX_STREAMS,
      onerror,
    });
    this.modern = toNodeHandler(this.handler, { onerror });
    this.stopHearing = parts.notices.add(notice => {
      for (const session of this.sessions.values()) session.hear(notice);
    });
    this.stopListening = subscriptions.add({ updated: uri => this.tell(uri), listChanged: () => this.tellList() });
    this.sweeper = setInterval(() => this.expire(), SWEEP);
    this.sweeper.unref();
  }

  get sessionCount(): number {
    return this.sessions.size;
  }

  async handle(request: ServerRequest, response: ServerResponse, body: unknown): Promise<void> {
    const { trace } = this.parts;
    if (trace !== undefined) {
      const id = request.headers['mcp-session-id'];
      const session = typeof id === 'string' ? id : undefined;
      for (const message of Array.isArray(body) ? body : body === undefined ? [] : [body]) trace.record('in', 'http', message, session);
      trace.follow(response, session);
    }
    if (isTooGreedy(body))
      return reject(
        response,
        200,
        idOf(body),
        -32602,
        `One stream listens to at most ${MAX_SUBSCRIBED_URIS} resources; listen to a device instead`,
      );
    const legacy = request.method !== 'POST' || (await isLegacyRequest(await toWebRequest(request, body)));
    return legacy ? await this.handleSession(request, response, body) : await this.modern(request, response, body);
  }

  async close(): Promise<void> {
    clearInterval(this.sweeper);
    this.stopListening();
    this.stopHearing();
    await this.handler.close();
    await Promise.all([...this.sessions.values()].map(session => session.server.close()));
  }

  private async handleSession(request: ServerRequest, response: ServerResponse, body: unknown): Promise<void> {
    const id = request.headers['mcp-session-id'];
    if (typeof id === 'string') {
      const session = this.sessions.get(id);
      if (session === undefined) return reject(response, 404, idOf(body), -32001, 'Session not found');
      return await this.pass(session, request, response, body);
    }
    if (request.method !== 'POST') return reject(response, 400, null, -32000, 'Bad Request: Mcp-Session-Id header is required');
    if (!isInitializeRequest(body))
      return reject(
        response,
        400,
        idOf(body),
        -32000,
        'Bad Request: the session starts with initialize, and every later request names it in Mcp-Session-Id',
      );
    if (this.sessions.size >= MAX_SESSIONS) this.dropOldestIdle();
    if (this.sessions.size >= MAX_SESSIONS)
      return reject(response, 503, idOf(body), -32000, `The bridge serves ${MAX_SESSIONS} sessions already`);
    return await this.open(request, response, body);
  }

  private async open(request: ServerRequest, response: ServerResponse, body: unknown): Promise<void> {
    const id = randomUUID();
    const { server, subscribed, hear } = createServer(this.parts, 'legacy', this.principal);
    const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: () => id });
    const session: Session = { id, server, transport, subscribed, hear, open: 0, lastUsed: performance.now() };
    server.onclose = () => this.sessions.delete(id);
    this.sessions.set(id, session);
    await server.connect(transport);
    await this.pass(session, request, response, body);
    // An initialize that was answered with an error made no session.
    if (transport.sessionId === undefined) await server.close();
  }

  private async pass(session: Session, request: ServerRequest, response: ServerResponse, body: unknown): Promise<void> {
    session.open++;
    session.lastUsed = performance.now();
    response.on('close', () => {
      session.open--;
      session.lastUsed = performance.now();
    });
    await session.transport.handleRequest(request, response, body);
  }

  private tell(uri: string): void {
    this.bus.publish({ kind: 'resource_updated', uri });
    for (const { server, subscribed } of this.sessions.values()) {
      if (subscribed.has(uri)) server.sendResourceUpdated({ uri }).catch(() => undefined);
    }
  }

  private tellList(): void {
    this.bus.publish({ kind: 'resources_list_changed' });
    for (const { server } of this.sessions.values()) server.sendResourceListChanged().catch(() => undefined);
  }

  private expire(): void {
    const now = performance.now();
    for (const session of this.sessions.values()) {
      if (session.open === 0 && now - session.lastUsed > IDLE_EXPIRY) void session.server.close();
    }
  }

  private dropOldestIdle(): void {
    const idle = [...this.sessions.values()].filter(session => session.open === 0).sort((a, b) => a.lastUsed - b.lastUsed);
    if (idle[0] !== undefined) void idle[0].server.close();
  }
}

function isTooGreedy(body: unknown): boolean {
  const { method, params } = (typeof body === 'object' && body !== null ? body : {}) as {
    method?: unknown;
    params?: { notifications?: { resourceSubscriptions?: unknown } };
  };
  const uris = method === 'subscriptions/listen' ? params?.notifications?.resourceSubscriptions : undefined;
  return Array.isArray(uris) && uris.length > MAX_SUBSCRIBED_URIS;
}

function idOf(body: unknown): string | number | null {
  const id = (body as { id?: unknown } | null | undefined)?.id;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

function reject(response: ServerResponse, status: number, id: string | number | null, code: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }));
}
