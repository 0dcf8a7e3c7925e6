import { ProtocolError, ProtocolErrorCode, ResourceNotFoundError, Server, type ServerContext } from '@modelcontextprotocol/server';
import type { Log } from '../drivers/driver.ts';
import { DEFAULT_LIMITS } from '../model/limits.ts';
import type { Principal } from '../model/write.ts';
import { InputNeeded, legacyConfirmer, modernConfirmer } from './ask.ts';
import { tooManyUris } from './exchange.ts';
import { LEVELS, type Level, type Notice, type Notices } from './notices.ts';
import type { SealedStates } from './sealed-state.ts';
import type { Call, Page, Served } from './served.ts';
import type { ChangingList } from './subscriptions.ts';
import type { Tally } from './tally.ts';
import { ArgumentError } from './tool.ts';
import type { Trace } from './trace.ts';
import { traceContextOf } from './trace-context.ts';

export type Era = 'legacy' | 'modern';

const LIST_TTL = 60_000;

export interface ServerParts {
  readonly catalogue: Served;
  readonly log: Log;
  readonly notices: Notices;
  /** What clients of 2026-07-28 keep between two rounds of a call. */
  readonly states: SealedStates;
  readonly tally: Tally;
  /** Where every message is written, if somebody wants to see them. */
  readonly trace?: Trace;
}

interface ConnectionOptions {
  /** Resources that it subscribes to, at the most. */
  readonly urisPerStream?: number;
  /** Revisions with initialize, the newest first. */
  readonly revisions?: string[];
}

/** A server instance for one connection, or for one request: handlers that look things up in the shared catalogue. */
export function createServer(
  { catalogue, log, states, tally }: ServerParts,
  era: Era,
  principal: Principal,
  { urisPerStream = DEFAULT_LIMITS.urisPerStream, revisions }: ConnectionOptions = {},
): { server: Server; subscribed: ReadonlySet<string>; hear(notice: Notice): void } {
  const subscribed = new Set<string>();
  const list = { ttlMs: LIST_TTL, cacheScope: 'private' } as const;
  const server = new Server(catalogue.identity, {
    capabilities: {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: {},
      completions: {},
      ...(era === 'legacy' && { logging: {} }),
    },
    instructions: catalogue.instructions,
    ...(revisions !== undefined && { supportedProtocolVersions: revisions }),
    cacheHints: {
      'tools/list': list,
      'prompts/list': list,
      'resources/list': list,
      'resources/templates/list': list,
      'server/discover': list,
    },
  });
  const callOf = (ctx: ServerContext): Call => {
    const trace = traceContextOf(ctx.mcpReq._meta);
    return {
      principal: withClient(principal, server),
      confirmer: era === 'legacy' ? legacyConfirmer(server, ctx, states.lifetime) : modernConfirmer(ctx, states, principal.name),
      signal: ctx.mcpReq.signal,
      context: ctx,
      ...(trace !== undefined && { trace }),
    };
  };

  server.setRequestHandler('tools/list', request => {
    const { items, ...rest } = pageOr(catalogue.tools(principal, request.params?.cursor));
    return { tools: items, ...rest };
  });
  server.setRequestHandler('tools/call', async (request, ctx) => {
    const { name, arguments: args } = request.params;
    const stopTelling = tellProgress(ctx, name);
    const call = callOf(ctx);
    const started = performance.now();
    let outcome = 'failed';
    try {
      const result = await catalogue.call(name, args, call);
      outcome = result === undefined ? 'unknown' : result.isError === true ? 'refused' : 'ok';
      if (result !== undefined) {
        const facts = {
          tool: name,
          ms: Math.round(performance.now() - started),
          ...(result.isError === true && { refused: true }),
          ...call.trace,
        };
        // Who names a trace wants to find the call in the log again.
        log[call.trace === undefined ? 'debug' : 'info'](facts, `the tool ${name} was called`);
        return result;
      }
    } catch (error) {
      if (error instanceof InputNeeded) {
        outcome = 'input_required';
        return error.result;
      }
      if (ctx.mcpReq.signal.aborted) outcome = 'cancelled';
      // What the protocol itself has an error for is the client's to hear.
      if (error instanceof ProtocolError) throw error;
      // A mistake of ours is logged with its place and told without it.
      if (!ctx.mcpReq.signal.aborted) log.warn({ err: error, tool: name, ...call.trace }, `the tool ${JSON.stringify(name)} failed`);
      throw new ProtocolError(ProtocolErrorCode.InternalError, 'The bridge could not carry out the call; its log says why');
    } finally {
      stopTelling();
      // A name that is none is the client's invention, and there may be many.
      tally.calls.add([outcome === 'unknown' ? '' : name, outcome]);
    }
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${JSON.stringify(name)}`);
  });
  server.setRequestHandler('resources/list', request => {
    const { items, ...rest } = pageOr(catalogue.resources(request.params?.cursor));
    return { resources: items, ...rest };
  });
  server.setRequestHandler('resources/templates/list', request => {
    const { items, ...rest } = pageOr(catalogue.resourceTemplates(request.params?.cursor));
    return { resourceTemplates: items, ...rest };
  });
  server.setRequestHandler('resources/read', async (request, ctx) => {
    const found = await catalogue.readResource(request.params.uri, ctx.mcpReq.signal);
    if (found === undefined) throw new ResourceNotFoundError(request.params.uri);
    return era === 'modern' ? { ...found.result, ttlMs: found.ttlMs, cacheScope: 'private' as const } : found.result;
  });
  server.setRequestHandler('prompts/list', request => {
    const { items, ...rest } = pageOr(catalogue.prompts(request.params?.cursor));
    return { prompts: items, ...rest };
  });
  server.setRequestHandler('prompts/get', async (request, ctx) => {
    const { name, arguments: args } = request.params;
    try {
      const found = await catalogue.getPrompt(name, args ?? {}, callOf(ctx));
      if (found !== undefined) return found;
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
    }
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown prompt: ${JSON.stringify(name)}`);
  });
  server.setRequestHandler('completion/complete', request => {
    const answer = catalogue.complete(request.params);
    if (answer === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is nothing to complete by this reference');
    return answer;
  });
  // Nothing is said before a client asks for it, and from then on what is at least as severe.
  let least: Level | undefined;
  if (era === 'legacy') {
    server.setRequestHandler('logging/setLevel', request => {
      least = request.params.level;
      return {};
    });
    server.setRequestHandler('resources/subscribe', request => {
      const { uri } = request.params;
      if (!catalogue.hasResource(uri)) throw new ResourceNotFoundError(uri);
      if (subscribed.size >= urisPerStream && !subscribed.has(uri))
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, tooManyUris(urisPerStream));
      subscribed.add(uri);
      return {};
    });
    server.setRequestHandler('resources/unsubscribe', request => {
      subscribed.delete(request.params.uri);
      return {};
    });
  }
  server.onerror = error => log.debug({ err: error }, 'a client sent what could not be understood, or went away');
  const hear = ({ level, logger, text }: Notice): void => {
    if (least === undefined || LEVELS.indexOf(level) < LEVELS.indexOf(least)) return;
    server.notification({ method: 'notifications/message', params: { level, logger, data: text } }).catch(() => undefined);
  };
  return { server, subscribed, hear };
}

export function tellListChanged(server: Server, list: ChangingList, { notifications }: Tally): void {
  notifications.add([`${list}_list_changed`]);
  (list === 'tools' ? server.sendToolListChanged() : server.sendResourceListChanged()).catch(() => undefined);
}

function pageOr<T>(page: Page<T> | undefined): Page<T> {
  if (page === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown cursor');
  return page;
}

/** The client's own name for the audit file: told by the client, so only a label. */
function withClient(principal: Principal, server: Server): Principal {
  const client = server.getClientVersion();
  return client === undefined ? principal : { ...principal, client: `${client.name} ${client.version}`.slice(0, 100) };
}

/** A call that takes longer than a second says so every second, if the client asked to hear it. @returns how to stop */
function tellProgress(ctx: ServerContext, name: string): () => void {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return () => undefined;
  let seconds = 0;
  const ticker = setInterval(() => {
    seconds++;
    const params = { progressToken, progress: seconds, message: `${name}: ${seconds} s` };
    // A client that has gone needs no progress.
    ctx.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined);
  }, 1000);
  return () => clearInterval(ticker);
}
