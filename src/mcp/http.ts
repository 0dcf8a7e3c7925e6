import type { ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { type AuthInfo, classifyInboundRequest, createMcpHandler, InMemoryServerEventBus } from '@modelcontextprotocol/server';
import type { ClientLimits } from '../model/limits.ts';
import type { Role } from '../model/role.ts';
import type { Principal } from '../model/write.ts';
import { EventStream } from './event-stream.ts';
import { HEADER_MISMATCH, idOf, isMessage, reject, type ServerRequest, tooManyUris } from './exchange.ts';
import { mismatchedHeader } from './param-headers.ts';
import { createServer, type ServerParts } from './server.ts';
import { Sessions } from './sessions.ts';
import type { ChangingList, News } from './subscriptions.ts';

/** A stream of a client of 2026-07-28, and what it listens to. */
interface Listener {
  readonly owner: Principal;
  readonly stream: EventStream;
  readonly uris: ReadonlySet<string>;
}

/**
 * Streamable HTTP for clients of every revision that has it: requests of 2026-07-28 each get a server of their own, older
 * clients a session with one. Host and origin were checked before.
 */
export class McpHttp {
  private readonly parts: ServerParts;
  private limits: ClientLimits;
  private readonly bus = new InMemoryServerEventBus();
  private readonly modern: ReturnType<typeof toNodeHandler>;
  private readonly handler: ReturnType<typeof createMcpHandler>;
  private readonly sessions: Sessions;
  private readonly listeners = new Set<Listener>();
  private readonly stopListening: () => void;

  constructor(parts: ServerParts, news: News, limits: ClientLimits) {
    this.parts = parts;
    this.limits = limits;
    const onerror = (error: Error): void => parts.log.debug({ err: error }, 'a request could not be served');
    this.handler = createMcpHandler(({ era, authInfo }) => createServer(parts, era, principalOf(authInfo)).server, {
      legacy: 'reject',
      bus: this.bus,
      // Ours are bounded before they come there, by bounds that may change.
      maxSubscriptions: Number.MAX_SAFE_INTEGER,
      onerror,
    });
    this.modern = toNodeHandler(this.handler, { onerror });
    this.sessions = new Sessions(parts, limits);
    this.stopListening = news.add({ updated: uri => this.updated(uri), listChanged: (list, roles) => this.listChanged(list, roles) });
  }

  /** Sessions and streams that are open now. */
  get open(): { readonly sessions: number; readonly streams: number } {
    return { sessions: this.sessions.count, streams: this.sessions.streams + this.listeners.size };
  }

  /** From now on; what is open already stays. */
  allow(limits: ClientLimits): void {
    this.limits = limits;
    this.sessions.allow(limits);
  }

  /** Ends sessions and streams of callers that are not known any more, or not with the same role. */
  revoke(isKnown: (principal: Principal) => boolean): void {
    for (const { owner, stream } of this.listeners) if (!isKnown(owner)) stream.close();
    this.sessions.revoke(isKnown);
  }

  /** @param principal who calls, as it was found out before */
  async handle(request: ServerRequest, response: ServerResponse, body: unknown, principal: Principal): Promise<void> {
    this.trace(request, response, body);
    if (request.method === 'POST' && !(Array.isArray(body) ? body.every(isMessage) : isMessage(body)))
      return reject(response, 400, idOf(body), -32600, 'Invalid Request: the body is no JSON-RPC 2.0 message');
    return isOld(request, body)
      ? await this.sessions.handle(request, response, body, principal, () => this.noStreamFor(principal))
      : await this.handleModern(request, response, body, principal);
  }

  async close(): Promise<void> {
    this.stopListening();
    await this.handler.close();
    await this.sessions.close();
  }

  /** Why there is no room for one more stream of a caller; undefined: there is. */
  private noStreamFor({ name }: Principal): string | undefined {
    const { streams, streamsPerPrincipal } = this.limits;
    if (this.open.streams >= streams) return `The bridge serves ${streams} streams already`;
    const own = [...this.listeners].filter(({ owner }) => owner.name === name).length + this.sessions.streamsOf(name);
    return own >= streamsPerPrincipal ? `${name} has ${streamsPerPrincipal} streams already` : undefined;
  }

  private async handleModern(request: ServerRequest, response: ServerResponse, body: unknown, principal: Principal): Promise<void> {
    const { method, params } = body as { method?: string; params?: Readonly<Record<string, unknown>> };
    if (method === 'tools/call') {
      const schema = this.parts.catalogue.inputSchemaOf(String(params?.name), principal);
      const mismatch = schema && mismatchedHeader(schema, params?.arguments, request.headers);
      if (mismatch !== undefined)
        return reject(response, 400, idOf(body), HEADER_MISMATCH, `Bad Request: ${mismatch.message}`, { mismatch: mismatch.data });
    }
    if (method === 'subscriptions/listen') {
      const asked = (params?.notifications as { resourceSubscriptions?: unknown } | undefined)?.resourceSubscriptions;
      const uris = Array.isArray(asked) ? asked : [];
      if (uris.length > this.limits.urisPerStream) return reject(response, 200, idOf(body), -32602, tooManyUris(this.limits.urisPerStream));
      const full = this.noStreamFor(principal);
      if (full !== undefined) return reject(response, 200, idOf(body), -32603, full);
      const listener = { owner: principal, stream: new EventStream(response, this.limits.unsent), uris: new Set(uris.map(String)) };
      this.listeners.add(listener);
      response.on('close', () => this.listeners.delete(listener));
    }
    await this.modern(Object.assign(request, { auth: authInfoOf(principal) }), response, body);
  }

  private updated(uri: string): void {
    for (const { stream, uris } of this.listeners) {
      if (!uris.has(uri)) continue;
      stream.sending(uri.length + 200);
      this.parts.tally.notifications.add(['resource_updated']);
    }
    this.bus.publish({ kind: 'resource_updated', uri });
    this.sessions.updated(uri);
  }

  private listChanged(list: ChangingList, roles: ReadonlySet<Role>): void {
    if ([...this.listeners].some(({ owner }) => roles.has(owner.role))) this.bus.publish({ kind: `${list}_list_changed` });
    this.sessions.listChanged(list, roles);
  }

  private trace(request: ServerRequest, response: ServerResponse, body: unknown): void {
    const { trace } = this.parts;
    if (trace === undefined) return;
    const id = request.headers['mcp-session-id'];
    const session = typeof id === 'string' ? id : undefined;
    for (const message of Array.isArray(body) ? body : body === undefined ? [] : [body]) trace.record('in', 'http', message, session);
    trace.follow(response, session);
  }
}

/** Whether a request is of a revision with sessions. */
function isOld(request: ServerRequest, body: unknown): boolean {
  const version = request.headers['mcp-protocol-version'];
  const protocolVersionHeader = typeof version === 'string' ? { protocolVersionHeader: version } : {};
  return Array.isArray(body) || classifyInboundRequest({ httpMethod: request.method, ...protocolVersionHeader, body }).kind === 'legacy';
}

/** The SDK hands on what stands here to whoever makes the server of a request. */
const authInfoOf = (principal: Principal): AuthInfo => ({
  token: '',
  clientId: principal.name,
  scopes: [principal.role],
  extra: { principal },
});

/** A request without somebody who calls is never served. */
function principalOf(authInfo: AuthInfo | undefined): Principal {
  const principal = authInfo?.extra?.principal as Principal | undefined;
  if (principal === undefined) throw new Error('a request without a principal');
  return principal;
}
