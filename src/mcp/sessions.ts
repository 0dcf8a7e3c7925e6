import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { isInitializeRequest, type Server } from '@modelcontextprotocol/server';
import type { ClientLimits } from '../model/limits.ts';
import type { Role } from '../model/role.ts';
import type { Principal } from '../model/write.ts';
import { isOfGeneralStream, RecentEvents } from './event-store.ts';
import { EventStream } from './event-stream.ts';
import { ATTACHED, BATCHING, idOf, noBatch, reject, type ServerRequest, STDIO_REVISIONS } from './exchange.ts';
import type { Notice } from './notices.ts';
import { createServer, type ServerParts, tellListChanged } from './server.ts';
import type { ChangingList } from './subscriptions.ts';

const IDLE_EXPIRY = 30 * 60_000;
const SWEEP = 60_000;
/** After which a client whose stream ended comes back (MCP 2025-11-25, transports, `retry`). */
const RETRY = 1000;
/** 2024-11-05 has an HTTP transport of its own, which is deprecated and not served; its clients come by stdio. */
const REVISIONS = ['2025-11-25', '2025-06-18', BATCHING];

interface Session {
  readonly id: string;
  /** By whose authority it was made. */
  readonly owner: Principal;
  readonly server: Server;
  readonly transport: NodeStreamableHTTPServerTransport;
  readonly subscribed: ReadonlySet<string>;
  readonly hear: (notice: Notice) => void;
  readonly events: RecentEvents;
  /** The stream for what no request asked for. */
  stream: EventStream | undefined;
  /** Requests and streams that are open now. */
  open: number;
  lastUsed: number;
}

/** The sessions of clients older than 2026-07-28 over HTTP: made by initialize, ended by DELETE, expiry or the client's successor. */
export class Sessions {
  private readonly parts: ServerParts;
  private limits: ClientLimits;
  private readonly sessions = new Map<string, Session>();
  private readonly stopHearing: () => void;
  private readonly sweeper: NodeJS.Timeout;

  constructor(parts: ServerParts, limits: ClientLimits) {
    this.parts = parts;
    this.limits = limits;
    this.stopHearing = parts.notices.add(notice => {
      for (const session of this.sessions.values()) {
        session.stream?.sending(notice.text.length);
        session.hear(notice);
      }
    });
    this.sweeper = setInterval(() => this.sweep(), SWEEP);
    this.sweeper.unref();
  }

  get count(): number {
    return this.sessions.size;
  }

  get streams(): number {
    let count = 0;
    for (const session of this.sessions.values()) if (session.stream !== undefined) count++;
    return count;
  }

  streamsOf(owner: string): number {
    let count = 0;
    for (const session of this.sessions.values()) if (session.stream !== undefined && session.owner.name === owner) count++;
    return count;
  }

  allow(limits: ClientLimits): void {
    this.limits = limits;
  }

  revoke(isKnown: (principal: Principal) => boolean): void {
    for (const { owner, server } of this.sessions.values()) if (!isKnown(owner)) void server.close();
  }

  /** @param noStream why there is no room for one more stream of notifications */
  async handle(
    request: ServerRequest,
    response: ServerResponse,
    body: unknown,
    principal: Principal,
    noStream: () => string | undefined,
  ): Promise<void> {
    const id = request.headers['mcp-session-id'];
    if (typeof id === 'string') {
      const session = this.sessions.get(id);
      // Of another's session nobody hears even that it is there.
      if (session === undefined || !isSame(session.owner, principal)) return reject(response, 404, idOf(body), -32001, 'Session not found');
      if (Array.isArray(body)) {
        const revision = session.server.getNegotiatedProtocolVersion();
        if (revision !== BATCHING || body.length === 0) return reject(response, 400, null, -32600, noBatch(revision));
      }
      if (request.method === 'GET') return await this.stream(session, request, response, noStream);
      return await this.pass(session, request, response, body);
    }
    if (request.method !== 'POST') return reject(response, 400, null, -32000, 'Bad Request: Mcp-Session-Id header is required');
    if (Array.isArray(body))
      return reject(response, 400, null, -32600, 'Invalid Request: a batch needs a session, and initialize comes alone');
    if (!isInitializeRequest(body))
      return reject(
        response,
        400,
        idOf(body),
        -32000,
        'Bad Request: the session starts with initialize, and every later request names it in Mcp-Session-Id',
      );
    if (this.sessions.size >= this.limits.sessions) this.dropOldestIdle();
    if (this.sessions.size >= this.limits.sessions)
      return reject(response, 503, idOf(body), -32000, `The bridge serves ${this.limits.sessions} sessions already`);
    return await this.open(request, response, body, principal);
  }

  updated(uri: string): void {
    for (const session of this.sessions.values()) if (session.subscribed.has(uri)) this.tellUpdated(session, uri);
  }

  listChanged(list: ChangingList, roles: ReadonlySet<Role>): void {
    for (const { server, owner } of this.sessions.values()) if (roles.has(owner.role)) tellListChanged(server, list, this.parts.tally);
  }

  async close(): Promise<void> {
    clearInterval(this.sweeper);
    this.stopHearing();
    await Promise.all([...this.sessions.values()].map(session => session.server.close()));
  }

  private async open(request: ServerRequest, response: ServerResponse, body: unknown, principal: Principal): Promise<void> {
    const id = randomUUID();
    const { server, subscribed, hear } = createServer(this.parts, 'legacy', principal, {
      urisPerStream: this.limits.urisPerStream,
      revisions: request.headers[ATTACHED] === undefined ? REVISIONS : [...STDIO_REVISIONS],
    });
    const events = new RecentEvents();
    const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: () => id, eventStore: events, retryInterval: RETRY });
    const session: Session = {
      id,
      owner: principal,
      server,
      transport,
      subscribed,
      hear,
      events,
      stream: undefined,
      open: 0,
      lastUsed: performance.now(),
    };
    server.onclose = () => {
      this.sessions.delete(id);
      session.stream?.close();
    };
    this.sessions.set(id, session);
    await server.connect(transport);
    await this.pass(session, request, response, body);
    // An initialize that was answered with an error made no session.
    if (transport.sessionId === undefined) await server.close();
  }

  /** The stream that a client listens on: one that comes again has lost the one before, whether or not the system knows. */
  private async stream(
    session: Session,
    request: ServerRequest,
    response: ServerResponse,
    noStream: () => string | undefined,
  ): Promise<void> {
    const last = request.headers['last-event-id'];
    const lastId = typeof last === 'string' && last !== '' ? last : undefined;
    const isGeneral = lastId === undefined || isOfGeneralStream(lastId);
    const isLost = lastId !== undefined && !session.events.hasAllAfter(lastId);
    if (isLost && !isGeneral) return reject(response, 400, null, -32000, 'What followed this event is not kept any more; ask again');
    if (!isGeneral) return await this.pass(session, request, response, undefined);
    const full = session.stream === undefined ? noStream() : undefined;
    if (full !== undefined) return reject(response, 503, null, -32000, full);
    const stream = new EventStream(response, this.limits.unsent);
    if (lastId === undefined) session.transport.closeStandaloneSSEStream();
    session.stream?.close();
    session.stream = stream;
    response.on('close', () => {
      if (session.stream === stream) session.stream = undefined;
    });
    // What was missed is not known: everything may have changed.
    if (isLost)
      void stream.opened.then(() => {
        for (const uri of session.subscribed) this.tellUpdated(session, uri);
      });
    await this.pass(session, request, response, undefined);
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

  private tellUpdated({ server, stream }: Session, uri: string): void {
    stream?.sending(uri.length + 100);
    if (stream !== undefined) this.parts.tally.notifications.add(['resource_updated']);
    server.sendResourceUpdated({ uri }).catch(() => undefined);
  }

  private sweep(): void {
    const now = performance.now();
    for (const session of this.sessions.values()) {
      session.events.forgetOld(now);
      if (session.open === 0 && now - session.lastUsed > IDLE_EXPIRY) void session.server.close();
    }
  }

  private dropOldestIdle(): void {
    const idle = [...this.sessions.values()].filter(session => session.open === 0).sort((a, b) => a.lastUsed - b.lastUsed);
    if (idle[0] !== undefined) void idle[0].server.close();
  }
}

/** A session is for whom it was made for: the same name in another role is another. */
const isSame = (a: Principal, b: Principal): boolean => a.name === b.name && a.role === b.role;
