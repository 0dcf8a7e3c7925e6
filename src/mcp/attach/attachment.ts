import { setTimeout as sleep } from 'node:timers/promises';
import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type Transport,
} from '@modelcontextprotocol/server';
import type { Log } from '../../drivers/driver.ts';
import { wordsOf } from '../../model/errors.ts';
import type { JsonSchema } from '../../model/json-schema.ts';
import { HEADER_MISMATCH } from '../exchange.ts';
import { paramHeaders } from '../param-headers.ts';
import { type Door, LostError, modernHeaders, modernVersion, RefusedError, type Reply, UnreachableError } from './door.ts';

type Id = string | number;

/** How long a client that starts before the bridge waits for it. */
const FIRST_WAIT = 10_000;
const PAUSE = { first: 250, longest: 5000 } as const;
/** Server errors of JSON-RPC 2.0, 5.1, that are ours to define. */
const NOT_CARRIED = -32000;

/** A session of a client older than 2026-07-28, and what it takes to have it again. */
interface Session {
  readonly id: string | undefined;
  readonly revision: string;
  readonly ended: AbortController;
}

/**
 * One client on standard input and output, attached to a bridge that runs: each message goes on as it is, in whichever
 * revision. When the bridge is away, calls are answered with an error that says whether something may have been carried
 * out; when it is back, the session, its subscriptions and listening streams are taken up again.
 */
export class Attachment {
  private readonly door: Door;
  private readonly client: Transport;
  private readonly log: Log;
  private readonly closed = new AbortController();
  private readonly calls = new Map<Id, AbortController>();
  private readonly subscribed = new Set<string>();
  /** Arguments of tools as they were listed. */
  private readonly schemas = new Map<string, JsonSchema>();
  private handshake: JSONRPCRequest | undefined;
  private isInitialized = false;
  private level: unknown;
  private session: Session | undefined;
  private reviving: Promise<void> | undefined;
  /** The handshake and the notifications that have to arrive before the calls that follow them. */
  private earlier: Promise<unknown> = Promise.resolve();
  private count = 0;

  constructor(door: Door, client: Transport, log: Log) {
    this.door = door;
    this.client = client;
    this.log = log;
    client.onmessage = message => void this.take(message);
  }

  /** Lets go of the bridge. */
  async close(): Promise<void> {
    const { session } = this;
    this.session = undefined;
    session?.ended.abort();
    this.closed.abort();
    for (const call of this.calls.values()) call.abort();
    if (session?.id !== undefined)
      await this.door.request('DELETE', headersOf(session), undefined, AbortSignal.timeout(1000)).catch(() => undefined);
  }

  private async take(message: JSONRPCMessage): Promise<void> {
    try {
      if (isJSONRPCRequest(message)) await this.call(message);
      else await this.pass(message);
    } catch (error) {
      this.log.warn({ err: error }, 'a message of the client could not be passed on');
    }
  }

  /** Notifications, and answers to what the bridge has asked: there is nobody to tell that they did not arrive. */
  private async pass(message: JSONRPCMessage): Promise<void> {
    const { method, params } = message as { method?: string; params?: { requestId?: Id } };
    // In 2026-07-28 the end of its stream is what cancels a request; before, nobody waits for its answer any more.
    if (method === 'notifications/cancelled' && params?.requestId !== undefined) this.calls.get(params.requestId)?.abort();
    const passed = this.earlier.then(() => this.passInSession(message, method));
    this.earlier = passed;
    await passed;
  }

  private async passInSession(message: JSONRPCMessage, method: string | undefined): Promise<void> {
    const { session } = this;
    if (session === undefined) return;
    try {
      await drain(await this.door.request('POST', headersOf(session), message, session.ended.signal));
    } catch (error) {
      this.log.warn({}, `a notification did not reach the bridge at ${this.door.url}: ${wordsOf(error)}`);
    }
    if (method === 'notifications/initialized') {
      this.isInitialized = true;
      void this.listen(session);
    }
  }

  private async call(request: JSONRPCRequest): Promise<void> {
    const controller = new AbortController();
    this.calls.set(request.id, controller);
    try {
      const version = modernVersion(request);
      if (request.method === 'initialize' && version === undefined) {
        const opened = this.initialize(request, controller.signal);
        this.earlier = opened.catch(() => undefined);
        await opened;
      } else if (version === undefined) {
        await this.earlier;
        await this.callInSession(request, controller.signal);
      } else if (request.method === 'subscriptions/listen') await this.keepListening(request, version, controller.signal);
      else await this.callAlone(request, version, controller.signal);
    } catch (error) {
      if (!controller.signal.aborted) await this.fail(request, error);
    } finally {
      this.calls.delete(request.id);
    }
  }

  private async initialize(request: JSONRPCRequest, signal: AbortSignal): Promise<void> {
    this.handshake = request;
    const answer = await this.open(request, signal, FIRST_WAIT);
    await this.client.send(answer);
  }

  /** @returns the answer to initialize, which has made a session if it is a result. */
  private async open(request: JSONRPCRequest, signal: AbortSignal, patience: number): Promise<JSONRPCMessage> {
    const reply = await this.patiently(() => this.door.request('POST', {}, request, signal), signal, patience);
    for await (const { message } of reply.messages) {
      if (!isAnswerTo(message, request)) continue;
      const revision = (message as { result?: { protocolVersion?: unknown } }).result?.protocolVersion;
      if (typeof revision === 'string') this.session = { id: reply.session, revision, ended: new AbortController() };
      return message;
    }
    throw refusal(reply.status);
  }

  private async callInSession(request: JSONRPCRequest, signal: AbortSignal): Promise<void> {
    if (this.session === undefined) await this.revive();
    const { session } = this;
    if (session === undefined) throw new UnreachableError('there is no session');
    const reply = await this.door.request('POST', headersOf(session), request, signal);
    if (reply.status === 404) {
      // A session that is not known any more has not carried out anything.
      await drain(reply);
      await this.revive(session);
      return await this.callInSession(request, signal);
    }
    await this.deliver(request, reply, lastId =>
      this.door.request('GET', { ...headersOf(session), 'last-event-id': lastId }, undefined, signal),
    );
  }

  private async callAlone(request: JSONRPCRequest, version: string, signal: AbortSignal, isSecond = false): Promise<void> {
    const { name, arguments: args } = (request.params ?? {}) as { name?: unknown; arguments?: unknown };
    const schema = request.method === 'tools/call' ? this.schemas.get(String(name)) : undefined;
    const headers = { ...modernHeaders(request, version), ...(schema !== undefined && paramHeaders(schema, args)) };
    const ask = (): Promise<Reply> => this.door.request('POST', headers, request, signal);
    const reply = await (request.method === 'server/discover' ? this.patiently(ask, signal, FIRST_WAIT) : ask());
    let answer: JSONRPCMessage | undefined;
    for await (const { message } of reply.messages) {
      if (message === undefined) continue;
      // What the client sends on a pipe has no headers: those that a tool wants are looked up in the list of tools.
      const code = 'error' in message ? message.error.code : undefined;
      if (code === HEADER_MISMATCH && request.method === 'tools/call' && !isSecond) {
        await this.learnTools(request, version, signal);
        return await this.callAlone(request, version, signal, true);
      }
      answer ??= isAnswerTo(message, request) ? message : undefined;
      await this.client.send(named(message, request));
    }
    if (answer === undefined) throw reply.status === 200 ? new LostError('the stream ended without an answer') : refusal(reply.status);
    this.note(request, answer);
  }

  private async learnTools(request: JSONRPCRequest, version: string, signal: AbortSignal): Promise<void> {
    let cursor: string | undefined;
    do {
      const list: JSONRPCRequest = {
        jsonrpc: '2.0',
        id: this.ownId(),
        method: 'tools/list',
        params: { _meta: request.params?._meta, ...(cursor !== undefined && { cursor }) },
      };
      const reply = await this.door.request('POST', modernHeaders(list, version), list, signal);
      cursor = undefined;
      for await (const { message } of reply.messages) if (isAnswerTo(message, list)) cursor = this.note(list, message);
    } while (cursor !== undefined);
  }

  /** A listening stream of 2026-07-28 is opened again for as long as the client wants it. */
  private async keepListening(request: JSONRPCRequest, version: string, signal: AbortSignal): Promise<void> {
    const uris = ((request.params?.notifications ?? {}) as { resourceSubscriptions?: string[] }).resourceSubscriptions ?? [];
    let isKnown = false;
    const ask = (): Promise<Reply> => this.door.request('POST', modernHeaders(request, version), request, signal);
    let first: Reply | undefined = await ask();
    await this.again(signal, async () => {
      const reply = first ?? (await ask());
      first = undefined;
      for await (const { message } of reply.messages) {
        if (message === undefined) continue;
        const isAck = isJSONRPCNotification(message) && message.method === 'notifications/subscriptions/acknowledged';
        // The client knows of its stream already, but not of what changed meanwhile.
        if (isAck && isKnown) {
          const meta = { _meta: (message.params as { _meta?: object } | undefined)?._meta };
          for (const uri of uris) await this.tell('notifications/resources/updated', { uri, ...meta });
          continue;
        }
        if (isAck) isKnown = true;
        // A stream that a bridge ends as it stops is not ended for the client.
        else if (isAnswerTo(message, request) && isKnown && isJSONRPCResultResponse(message)) continue;
        await this.client.send(named(message, request));
        if (isAnswerTo(message, request)) return false;
      }
      if (!isKnown) throw refusal(reply.status);
      return true;
    });
  }

  /** The stream of a session that no request asked for. */
  private async listen(session: Session): Promise<void> {
    let lastId: string | undefined;
    await this.again(session.ended.signal, async () => {
      const reply = await this.door.request(
        'GET',
        { ...headersOf(session), ...(lastId !== undefined && { 'last-event-id': lastId }) },
        undefined,
        session.ended.signal,
      );
      if (reply.status === 404) {
        await this.revive(session);
        return false;
      }
      for await (const { message, eventId } of reply.messages) {
        lastId = eventId ?? lastId;
        if (message !== undefined && reply.status === 200) await this.client.send(message);
      }
      return reply.status !== 405;
    }).catch(error => this.log.debug({ err: error }, 'the stream of the bridge is not listened to any more'));
  }

  /** Does it again with growing pauses, as long as it wants to be done again. */
  private async again(signal: AbortSignal, doing: () => Promise<boolean>): Promise<void> {
    let pause: number = PAUSE.first;
    let wasAway = false;
    while (!signal.aborted) {
      const began = performance.now();
      try {
        if (!(await doing())) return;
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof UnreachableError || error instanceof LostError)) throw error;
        if (!wasAway) this.log.warn({}, `the bridge at ${this.door.url} is away: ${error.message}`);
        wasAway = true;
      }
      pause = performance.now() - began > PAUSE.longest ? PAUSE.first : Math.min(pause * 2, PAUSE.longest);
      await sleep(pause, undefined, { signal }).catch(() => undefined);
    }
  }

  /** A new session in place of one that the bridge does not know any more. @param lost which one, where there was one */
  private async revive(lost?: Session): Promise<void> {
    if (lost !== undefined && this.session !== lost && this.session !== undefined) return;
    this.reviving ??= this.openAgain().finally(() => {
      this.reviving = undefined;
    });
    await this.reviving;
  }

  private async openAgain(): Promise<void> {
    const { handshake } = this;
    if (handshake === undefined) throw new Error('the client has not begun with initialize');
    const old = this.session;
    const { signal } = this.closed;
    const answer = await this.open({ ...handshake, id: this.ownId() }, signal, 0);
    old?.ended.abort();
    const { session } = this;
    if (session === undefined || session === old || !isJSONRPCResultResponse(answer))
      throw new UnreachableError('the bridge makes no session');
    if (!this.isInitialized) return;
    const send = async (message: object): Promise<void> =>
      await drain(await this.door.request('POST', headersOf(session), { jsonrpc: '2.0', ...message }, signal));
    await send({ method: 'notifications/initialized' });
    if (this.level !== undefined) await send({ id: this.ownId(), method: 'logging/setLevel', params: { level: this.level } });
    for (const uri of this.subscribed) await send({ id: this.ownId(), method: 'resources/subscribe', params: { uri } });
    void this.listen(session);
    this.log.info({}, `the bridge at ${this.door.url} is back; the session goes on`);
    // Anything may have changed while it was away, its map too.
    await this.tell('notifications/tools/list_changed');
    await this.tell('notifications/resources/list_changed');
    for (const uri of this.subscribed) await this.tell('notifications/resources/updated', { uri });
  }

  /** Hands the messages of a reply on. @param resume asks for the rest of a stream that broke */
  private async deliver(request: JSONRPCRequest, reply: Reply, resume: (lastId: string) => Promise<Reply>): Promise<void> {
    let lastId: string | undefined;
    let current = reply;
    for (;;) {
      try {
        for await (const { message, eventId } of current.messages) {
          lastId = eventId ?? lastId;
          if (message === undefined) continue;
          await this.client.send(named(message, request));
          if (isAnswerTo(message, request)) {
            this.note(request, message);
            return;
          }
        }
      } catch (error) {
        if (lastId === undefined) throw error;
      }
      if (lastId === undefined || current.status !== 200)
        throw current.status === 200 ? new LostError('the stream ended without an answer') : refusal(current.status);
      const id = lastId;
      lastId = undefined;
      current = await resume(id).catch((): never => {
        throw new LostError('the connection ended');
      });
    }
  }

  /** Keeps what has to be said again in a new session, and how tools are listed. @returns the cursor of the next page */
  private note({ method, params }: JSONRPCRequest, answer: JSONRPCMessage): string | undefined {
    if (!isJSONRPCResultResponse(answer)) return undefined;
    const { uri, level } = (params ?? {}) as { uri?: string; level?: unknown };
    if (method === 'resources/subscribe' && uri !== undefined) this.subscribed.add(uri);
    else if (method === 'resources/unsubscribe' && uri !== undefined) this.subscribed.delete(uri);
    else if (method === 'logging/setLevel') this.level = level;
    else if (method === 'tools/list') {
      const { tools, nextCursor } = answer.result as { tools?: { name: string; inputSchema: JsonSchema }[]; nextCursor?: string };
      for (const tool of tools ?? []) this.schemas.set(tool.name, tool.inputSchema);
      return nextCursor;
    }
    return undefined;
  }

  private async patiently(ask: () => Promise<Reply>, signal: AbortSignal, patience: number): Promise<Reply> {
    const deadline = performance.now() + patience;
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof UnreachableError) || performance.now() >= deadline || signal.aborted) throw error;
        await sleep(PAUSE.first, undefined, { signal });
      }
    }
  }

  private async tell(method: string, params?: object): Promise<void> {
    await this.client.send({ jsonrpc: '2.0', method, ...(params !== undefined && { params }) } as JSONRPCMessage);
  }

  private async fail({ id }: JSONRPCRequest, error: unknown): Promise<void> {
    await this.client.send({ jsonrpc: '2.0', id, error: { code: NOT_CARRIED, message: this.messageOf(error) } });
  }

  private messageOf(error: unknown): string {
    const { url } = this.door;
    if (error instanceof LostError)
      return `The connection to the bridge at ${url} was lost during this call: it may have been carried out. Look at the plant before asking again.`;
    if (error instanceof RefusedError) return `The bridge at ${url} ${error.message}. Nothing was carried out.`;
    if (error instanceof UnreachableError)
      return `The bridge at ${url} does not answer: ${error.message}. Nothing was carried out; ask again when it runs.`;
    return `The bridge at ${url} could not be asked: ${wordsOf(error)}`;
  }

  private ownId(): string {
    return `attach-${++this.count}`;
  }
}

const headersOf = ({ id, revision }: Session): Record<string, string> => ({
  ...(id !== undefined && { 'mcp-session-id': id }),
  'mcp-protocol-version': revision,
});

/** An error without an id, as for a body that is no message, is an answer too. */
function isAnswerTo(message: JSONRPCMessage | undefined, { id }: JSONRPCRequest): message is JSONRPCMessage {
  return (
    message !== undefined &&
    (('error' in message && (message.id ?? null) === null) || ('id' in message && !('method' in message) && message.id === id))
  );
}

const named = (message: JSONRPCMessage, request: JSONRPCRequest): JSONRPCMessage =>
  isAnswerTo(message, request) ? ({ ...message, id: request.id } as JSONRPCMessage) : message;

async function drain(reply: Reply): Promise<void> {
  for await (const _ of reply.messages);
}

const refusal = (status: number): Error =>
  new UnreachableError(status === 404 ? 'nothing serves MCP at this address (HTTP 404)' : `it answers HTTP ${status}`);
