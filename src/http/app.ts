import type { ServerResponse } from 'node:http';
import { TLSSocket } from 'node:tls';
import { hostHeaderValidation, originValidation } from '@modelcontextprotocol/fastify';
import { localhostAllowedHostnames, localhostAllowedOrigins } from '@modelcontextprotocol/server';
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { type ConnectionStatus, isUp, type Log } from '../drivers/driver.ts';
import type { ServerRequest } from '../mcp/exchange.ts';
import type { McpHttp } from '../mcp/http.ts';
import type { Caller, HttpSettings } from '../model/access.ts';
import type { Counts } from '../model/counts.ts';
import { type Approvals, serveApprovals } from './approvals.ts';
import { Authentication, type Credentials } from './auth.ts';
import type { Metrics } from './metrics.ts';
import { protectedResource } from './protected-resource.ts';
import { RequestRate } from './request-rate.ts';

/** Longest time to a certain end that a timer takes. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** What is served besides MCP, and to whom; what says nothing is for known callers alone. */
type Access = 'everybody' | 'more to callers';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
  }
}

export interface Served {
  readonly mcp: McpHttp;
  readonly keeper: Approvals;
  readonly connections: () => readonly ConnectionStatus[];
  readonly metrics: Pick<Metrics, 'contentType' | 'text'>;
  readonly log: Log;
  /** Answers by their status. */
  readonly answers: Counts;
  /** Told of each response that stays open. */
  watch(response: ServerResponse): void;
}

/** What requests go through, as the map has it now: host, origin, who calls, how often, and then what they are for. */
export async function buildApp(settings: HttpSettings, served: Served): Promise<FastifyInstance> {
  const { log, answers } = served;
  const auth = new Authentication(settings, log);
  const rate = new RequestRate(settings.limits.requestsPerSecond);
  const resource = protectedResource(settings);
  const callers = new WeakMap<object, Caller>();
  const callerOf = (request: FastifyRequest): Caller | undefined => callers.get(request.raw);

  const app = Fastify({ bodyLimit: settings.limits.body });
  const headers = Object.entries({
    ...SECURITY_HEADERS,
    ...(settings.tls !== undefined && { 'strict-transport-security': 'max-age=31536000' }),
  });
  app.addHook('onRequest', async (_request, reply) => {
    for (const [name, value] of headers) reply.raw.setHeader(name, value);
    reply.raw.once('finish', () => answers.add([String(reply.raw.statusCode)]));
  });
  // A page that resolves its own name to this address must not reach the bridge as if it were its own.
  app.addHook('onRequest', hostHeaderValidation([...localhostAllowedHostnames(), ...settings.allowedHosts.map(bracketed)]));
  app.addHook('onRequest', originValidation([...localhostAllowedOrigins(), ...settings.allowedOrigins.map(hostOf)]));
  app.addHook('onRequest', async (request, reply) => {
    const access = request.routeOptions.config.access;
    const credentials = credentialsOf(request);
    const isAsked = access === undefined || (access === 'more to callers' && auth.hasCredentials(credentials));
    const verdict = isAsked ? await auth.check(credentials) : undefined;
    if (verdict !== undefined && 'status' in verdict) return await refuse(reply, verdict.status, resource?.challenge ?? 'Bearer');
    if (verdict !== undefined) callers.set(request.raw, verdict.caller);
    const who = verdict === undefined || !auth.isOn ? request.ip : verdict.caller.name;
    if (rate.take(who)) return;
    reply.header('retry-after', '1');
    await sayError(reply, 429, -32000, `More than ${settings.limits.requestsPerSecond} requests in a second; slow down`);
  });
  readJson(app, settings.limits.body);
  app.setNotFoundHandler((request, reply) => {
    const [url = ''] = request.url.split('?');
    const allowed = METHODS.filter(method => app.hasRoute({ method, url }));
    if (allowed.length === 0) return reply.code(404).send({ error: `There is nothing here; MCP is served at ${settings.path}` });
    return reply
      .code(405)
      .header('allow', allowed.join(', '))
      .send({ error: `${request.method} is not served here; ${allowed.join(', ')} is` });
  });

  const approvers = [...settings.tokens, ...settings.certificates].some(({ approves }) => approves);
  if (approvers) serveApprovals(app, served.keeper, callerOf);
  serveHealth(app, served, request => !auth.isOn || callerOf(request) !== undefined);
  if (resource !== undefined)
    for (const url of resource.paths) app.get(url, { config: { access: 'everybody' } }, (_request, reply) => reply.send(resource.metadata));
  app.route({
    method: [...METHODS],
    url: settings.path,
    handler: async (request, reply) => {
      const caller = callerOf(request);
      // No handler relies on what stood in front of it.
      if (caller === undefined) return await refuse(reply, 401, resource?.challenge ?? 'Bearer');
      if (caller.approves)
        return await sayError(
          reply,
          403,
          -32000,
          `The credential ${caller.name} is a person's: it decides about writes that wait, and opens no MCP`,
        );
      reply.hijack();
      served.watch(reply.raw);
      if (caller.expires !== undefined && isStream(request)) endAt(reply.raw, caller.expires);
      try {
        await served.mcp.handle(request.raw as ServerRequest, reply.raw, request.body, { name: caller.name, role: caller.role });
      } catch (error) {
        log.warn({ err: error }, 'a request could not be served');
        // Nothing of what went wrong inside is told; the client sees that its connection ended.
        reply.raw.destroy();
      }
      return reply;
    },
  });
  await app.ready();
  return app;
}

const METHODS = ['GET', 'POST', 'DELETE'] as const;

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

const REFUSALS = {
  401: 'A credential of this bridge is needed',
  403: 'This credential gives no role at this bridge',
  429: 'Too many wrong credentials; wait a minute',
  503: 'Credentials can not be checked now; try again later',
} as const;

async function refuse(reply: FastifyReply, status: keyof typeof REFUSALS, challenge: string): Promise<FastifyReply> {
  if (status === 401) reply.header('www-authenticate', challenge);
  else if (status === 403) reply.header('www-authenticate', `${challenge}${challenge === 'Bearer' ? ' ' : ', '}error="insufficient_scope"`);
  else reply.header('retry-after', status === 429 ? '60' : '5');
  return await sayError(reply, status, -32000, REFUSALS[status]);
}

/** A JSON-RPC error without a request that it belongs to. */
function sayError(reply: FastifyReply, status: number, code: number, message: string): FastifyReply {
  return reply.code(status).send({ jsonrpc: '2.0', id: null, error: { code, message } });
}

function credentialsOf(request: FastifyRequest): Credentials {
  const { socket } = request.raw;
  const certificate = socket instanceof TLSSocket && socket.authorized ? socket.getPeerCertificate() : undefined;
  return { authorization: request.headers.authorization, address: request.ip, certificate };
}

/** Some clients name a content type where they send nothing, with DELETE for one. Whatever else is no JSON is refused in words. */
function readJson(app: FastifyInstance, bodyLimit: number): void {
  // A key __proto__ or constructor.prototype in any body is an error.
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '' && request.method !== 'POST') done(null, undefined);
    else void parseJson(request, body, done);
  });
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    const status = error.statusCode ?? 500;
    const [code, message] =
      status === 400
        ? [-32700, 'Parse error: the body is no JSON']
        : status === 413
          ? [-32600, `The body is larger than ${bodyLimit / 1000} kB`]
          : status === 415
            ? [-32600, 'The body has to be application/json']
            : [-32603, 'Internal error'];
    return sayError(reply, status, code, message);
  });
}

/** Whether the bridge is alive, how its connections are, and what it has counted. */
function serveHealth(app: FastifyInstance, { connections, metrics }: Served, isKnown: (request: FastifyRequest) => boolean): void {
  app.get('/healthz', { config: { access: 'everybody' } }, (_request, reply) => reply.send({ status: 'alive' }));
  app.get('/readyz', { config: { access: 'more to callers' } }, (request, reply) => {
    const now = connections();
    const isReady = now.every(isUp);
    const each = now.map(({ name, state, since, last_error }) => ({ name, state, since, ...(last_error !== undefined && { last_error }) }));
    const told = { status: isReady ? 'ready' : 'not ready', ...(isKnown(request) && { connections: each }) };
    return reply.code(isReady ? 200 : 503).send(told);
  });
  app.get('/metrics', async (request, reply) => {
    if (!isKnown(request)) return await refuse(reply, 401, 'Bearer');
    return await reply.type(metrics.contentType).send(await metrics.text());
  });
}

/** Whether the response stays open for notifications. */
const isStream = (request: FastifyRequest): boolean =>
  request.method === 'GET' || (request.body as { method?: unknown } | undefined)?.method === 'subscriptions/listen';

/** A stream does not outlive the credential that opened it. */
function endAt(response: ServerResponse, expires: number): void {
  const timer = setTimeout(() => response.destroy(), Math.min(LONGEST_TIMER, Math.max(0, expires - Date.now())));
  timer.unref();
  response.on('close', () => clearTimeout(timer));
}

/** `https://page.example:8443` and `page.example` alike. */
function hostOf(origin: string): string {
  return URL.canParse(origin) && origin.includes('://') ? new URL(origin).hostname : origin;
}

const bracketed = (host: string): string =>
  host.includes(':') && !host.startsWith('[') && /^[\da-f:.]+$/i.test(host) ? `[${host}]` : host;
