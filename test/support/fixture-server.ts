import pino from 'pino';
import { onTestFinished } from 'vitest';
import { HttpListener } from '../../src/http/listener.ts';
import { McpHttp } from '../../src/mcp/http.ts';
import { Notices } from '../../src/mcp/notices.ts';
import { SealedStates } from '../../src/mcp/sealed-state.ts';
import type { Sink } from '../../src/mcp/subscriptions.ts';
import { Tally } from '../../src/mcp/tally.ts';
import { Counts } from '../../src/model/counts.ts';
import { DEFAULT_LIMITS, type HttpLimits } from '../../src/model/limits.ts';
import { ROLES } from '../../src/model/role.ts';
import { FixtureCatalogue } from './fixtures.ts';

/** The bridge's own HTTP door with fixtures behind it in place of a plant, and changes that the test makes. */
export async function startFixtureServer(limits: Partial<HttpLimits> = {}): Promise<{ endpoint: string; mcp: McpHttp; tell: Sink }> {
  const sinks = new Set<Sink>();
  const news = {
    add: (sink: Sink) => {
      sinks.add(sink);
      return () => sinks.delete(sink);
    },
  };
  const tell: Sink = {
    updated: uri => {
      for (const sink of sinks) sink.updated(uri);
    },
    listChanged: (list, roles) => {
      for (const sink of sinks) sink.listChanged(list, roles);
    },
  };
  const parts = {
    catalogue: new FixtureCatalogue(() => tell.listChanged('tools', new Set(ROLES))),
    log: pino({ level: 'silent' }),
    notices: new Notices(),
    states: new SealedStates(60_000),
    tally: new Tally(),
  };
  const all = { ...DEFAULT_LIMITS, requestsPerSecond: 10_000, ...limits };
  const mcp = new McpHttp(parts, news, all);
  const settings = {
    host: '127.0.0.1',
    port: 0,
    path: '/mcp',
    allowedHosts: [],
    allowedOrigins: [],
    limits: all,
    tokens: [],
    certificates: [],
  };
  const listener = new HttpListener(settings, {
    mcp,
    keeper: { pending: [], decide: () => Promise.reject(new Error('nothing waits')) },
    connections: () => [],
    metrics: { contentType: 'text/plain', text: () => Promise.resolve('') },
    log: parts.log,
    answers: new Counts(),
  });
  onTestFinished(async () => {
    await mcp.close();
    await listener.stop();
  });
  return { endpoint: await listener.start(), mcp, tell };
}
