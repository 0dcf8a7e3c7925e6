import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostHeaderValidation, originValidation } from '@modelcontextprotocol/fastify';
import { localhostAllowedHostnames, localhostAllowedOrigins } from '@modelcontextprotocol/server';
import Fastify, { type FastifyError, type FastifyInstance } from 'fastify';
import type { Log } from '../drivers/driver.ts';
import type { ServerRequest } from '../mcp/exchange.ts';
import type { McpHttp } from '../mcp/http.ts';
import { systemReason } from '../model/errors.ts';
import type { HttpLimits } from '../model/limits.ts';
import type { Principal } from '../model/write.ts';
import { type Approvals, serveApprovals } from './approvals.ts';
import { TokenAuth, type TokenEntry } from './auth.ts';

const HEADERS_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 30_000;
/** A client that takes nothing off its stream for this long is cut. */
const SLOW_READER = 10_000;

/** Without tokens: what they may write, the map and its master switch say. */
const ANYBODY_HERE: Principal = { name: 'http', role: 'operator' };

export interface HttpSettings {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly limits: HttpLimits;
  readonly tokens: readonly TokenEntry[];
}

class ListenError extends Error {}

/** The HTTP listener: one path for MCP, with the guards in front of it. */
export class HttpListener {
  private readonly app: FastifyInstance;
  private readonly settings: HttpSettings;
  private readonly responses = new Map<ServerResponse, number | undefined>();
  private readonly watcher: NodeJS.Timeout;
  private readonly callers = new WeakMap<object, TokenEntry>();

  constructor(settings: HttpSettings, mcp: McpHttp, keeper: Approvals, log: Log) {
    this.settings = settings;
    const { body: bodyLimit, connections } = settings.limits;
    this.app = Fastify({ bodyLimit, requestTimeout: REQUEST_TIMEOUT, forceCloseConnections: true });
    this.app.server.headersTimeout = HEADERS_TIMEOUT;
    this.app.server.maxConnections = connections;
    // A page that resolves its own name to this address must not reach the bridge as if it were its own.
    this.app.addHook('onRequest', hostHeaderValidation([...localhostAllowedHostnames(), ...settings.allowedHosts]));
    this.app.addHook('onRequest', originValidation([...localhostAllowedOrigins(), ...settings.allowedOrigins.map(hostOf)]));
    const auth = new TokenAuth(settings.tokens, log);
    if (auth.isOn)
      this.app.addHook('onRequest', async (request, reply) => {
        const verdict = auth.check(request.headers.authorization, request.ip);
        if ('caller' in verdict) {
          this.callers.set(request.raw, verdict.caller);
          return;
        }
        if (verdict.status === 401) reply.header('www-authenticate', 'Bearer');
        else reply.header('retry-after', '60');
        const message = verdict.status === 401 ? 'A bearer token of this bridge is needed' : 'Too many wrong tokens; wait a minute';
        await reply.code(verdict.status).send({ jsonrpc: '2.0', id: null, error: { code: -32000, message } });
      });
    if (settings.tokens.some(token => token.approves)) serveApprovals(this.app, keeper, request => this.callers.get(request));
    // Some clients name a content type where they send nothing, with DELETE for one.
    const parseJson = this.app.getDefaultJsonParser('error', 'error');
    this.app.removeContentTypeParser('text/plain');
    this.app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
      if (body === '' && request.method !== 'POST') done(null, undefined);
      else void parseJson(request, body, done);
    });
    this.app.setErrorHandler((error: FastifyError, _request, reply) => {
      const status = error.statusCode ?? 500;
      const [code, message] =
        status === 400
          ? [-32700, 'Parse error: the body is no JSON']
          : status === 413
            ? [-32600, `The body is larger than ${bodyLimit / 1000} kB`]
            : status === 415
              ? [-32600, 'The body has to be application/json']
              : [-32603, 'Internal error'];
      return reply.code(status).send({ jsonrpc: '2.0', id: null, error: { code, message } });
    });
    this.app.setNotFoundHandler((_request, reply) =>
      reply.code(404).send({ error: `There is nothing here; MCP is served at ${settings.path}` }),
    );
    this.app.route({
      method: ['GET', 'POST', 'DELETE'],
      url: settings.path,
      handler: async (request, reply) => {
        const caller = this.callers.get(request.raw);
        if (caller?.approves === true)
          return await reply.code(403).send({
            jsonrpc: '2.0',
            id: null,
            error: {
              code: -32000,
              message: `The token ${caller.name} is a person's: it decides about writes that wait, and opens no MCP`,
            },
          });
        const principal = caller === undefined ? ANYBODY_HERE : { name: caller.name, role: caller.role };
        reply.hijack();
        this.watch(reply.raw);
        try {
          await mcp.handle(request.raw as ServerRequest, reply.raw, request.body, principal);
        } catch {
          // Nothing of what went wrong inside is told; the client sees that its connection ended.
          reply.raw.destroy();
        }
        return reply;
      },
    });
    this.watcher = setInterval(() => this.cutSlowReaders(), 1000);
    this.watcher.unref();
  }

  /** @returns the address of the MCP endpoint. @throws ListenError in words */
  async start(): Promise<string> {
    const { host, port, path } = this.settings;
    try {
      await this.app.listen({ host, port });
    } catch (error) {
      const inUse = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      throw new ListenError(
        `can not listen on ${host}:${port}: ${inUse ? 'the port is in use already; stop the other program or change http.listen' : systemReason(error)}`,
      );
    }
    const { port: actual } = this.app.server.address() as AddressInfo;
    return `http://${host.includes(':') ? `[${host}]` : host}:${actual}${path}`;
  }

  async stop(): Promise<void> {
    clearInterval(this.watcher);
    await this.app.close();
  }

  private watch(response: ServerResponse): void {
    this.responses.set(response, undefined);
    response.on('close', () => this.responses.delete(response));
  }

  private cutSlowReaders(): void {
    const now = performance.now();
    for (const [response, since] of this.responses) {
      if (!response.writableNeedDrain) this.responses.set(response, undefined);
      else if (since === undefined) this.responses.set(response, now);
      else if (now - since > SLOW_READER) response.destroy();
    }
  }
}

/** `https://page.example:8443` and `page.example` alike. */
function hostOf(origin: string): string {
  return URL.canParse(origin) && origin.includes('://') ? new URL(origin).hostname : origin;
}
