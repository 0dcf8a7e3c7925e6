import { ProtocolError, ProtocolErrorCode, ResourceNotFoundError, Server, type ServerContext } from '@modelcontextprotocol/server';
import type { Field } from '../control/field.ts';
import type { Log } from '../drivers/driver.ts';
import type { Principal } from '../model/write.ts';
import type { Catalogue } from './catalogue.ts';
import { complete, completionOf } from './completion.ts';
import { LEVELS, type Level, type Notice, type Notices } from './notices.ts';
import { ArgumentError } from './tool.ts';
import type { Trace } from './trace.ts';

export type Era = 'legacy' | 'modern';

/** A client subscribes to no more resources than this on one connection. */
export const MAX_SUBSCRIBED_URIS = 256;

const LIST_TTL = 60_000;

export interface ServerParts {
  readonly catalogue: Catalogue;
  readonly field: Field;
  readonly log: Log;
  readonly notices: Notices;
  /** Where every message is written, if somebody wants to see them. */
  readonly trace?: Trace;
}

/** A server instance for one connection, or for one request: handlers that look things up in the shared catalogue. */
export function createServer(
  { catalogue, field, log }: ServerParts,
  era: Era,
  principal: Principal,
): { server: Server; subscribed: ReadonlySet<string>; hear(notice: Notice): void } {
  const { identity, resources, prompts } = catalogue;
  const subscribed = new Set<string>();
  const list = { ttlMs: LIST_TTL, cacheScope: 'private' } as const;
  const server = new Server(
    { name: identity.name, title: identity.description ?? identity.name, version: identity.version },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: {},
        completions: {},
        ...(era === 'legacy' && { logging: {} }),
      },
      instructions: catalogue.instructions,
      cacheHints: {
        'tools/list': list,
        'prompts/list': list,
        'resources/list': list,
        'resources/templates/list': list,
        'server/discover': list,
      },
    },
  );

  server.setRequestHandler('tools/list', () => ({ tools: catalogue.list(principal) }));
  server.setRequestHandler('tools/call', async (request, ctx) => {
    const { name, arguments: args } = request.params;
    const stopTelling = tellProgress(ctx, name);
    try {
      const result = await catalogue.call(name, args, { principal: withClient(principal, server), signal: ctx.mcpReq.signal });
      if (result !== undefined) return result;
    } catch (error) {
      // A mistake of ours is logged with its place and told without it.
      if (!ctx.mcpReq.signal.aborted) log.warn({ err: error, tool: name }, `the tool ${JSON.stringify(name)} failed`);
      throw new ProtocolError(ProtocolErrorCode.InternalError, 'The bridge could not carry out the call; its log says why');
    } finally {
      stopTelling();
    }
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${JSON.stringify(name)}`);
  });
  server.setRequestHandler('resources/list', request => {
    const page = resources.list(request.params?.cursor);
    if (page === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown cursor');
    return page;
  });
  server.setRequestHandler('resources/templates/list', () => resources.templates());
  server.setRequestHandler('resources/read', async (request, ctx) => {
    const found = await resources.read(request.params.uri, ctx.mcpReq.signal);
    if (found === undefined) throw new ResourceNotFoundError(request.params.uri);
    return era === 'modern' ? { ...found.result, ttlMs: found.ttlMs, cacheScope: 'private' as const } : found.result;
  });
  server.setRequestHandler('prompts/list', () => ({ prompts: prompts.list() }));
  server.setRequestHandler('prompts/get', async (request, ctx) => {
    const { name, arguments: args } = request.params;
    try {
      const found = await prompts.get(name, args ?? {}, ctx.mcpReq.signal);
      if (found !== undefined) return found;
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
    }
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown prompt: ${JSON.stringify(name)}`);
  });
  server.setRequestHandler('completion/complete', request => {
    const { ref, argument, context } = request.params;
    const candidates = ref.type === 'ref/prompt' ? prompts.candidates(ref.name, argument.name) : undefined;
    const answer =
      ref.type === 'ref/resource'
        ? complete(field.plant, ref.uri, argument, context?.arguments)
        : candidates && completionOf(candidates, argument.value);
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
      if (!resources.has(uri)) throw new ResourceNotFoundError(uri);
      if (subscribed.size >= MAX_SUBSCRIBED_URIS && !subscribed.has(uri))
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          `One connection subscribes to at most ${MAX_SUBSCRIBED_URIS} resources; subscribe to a device instead`,
        );
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
