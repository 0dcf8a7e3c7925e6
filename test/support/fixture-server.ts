import pino from 'pino';
import { onTestFinished } from 'vitest';
import { HttpListener } from '../../src/http/listener.ts';
import { McpHttp } from '../../src/mcp/http.ts';
import { Notices } from '../../src/mcp/notices.ts';
import { SealedStates } from '../../src/mcp/sealed-state.ts';
import type { Sink } from '../../src/mcp/subscriptions.ts';
import { DEFAULT_LIMITS, type HttpLimits } from '../../src/model/limits.ts';
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
    listChanged: list => {
      for (const sink of sinks) sink.listChanged(list);
    },
  };
  const parts = {
    catalogue: new FixtureCatalogue(() => tell.listChanged('tools')),
    log: pino({ level: 'silent' }),
    notices: new Notices(),
    states: new SealedStates(60_000),
  };
  const all = { ...DEFAULT_LIMITS, ...limits };
  const mcp = new McpHttp(parts, news, all);
  const settings = { host: '127.0.0.1', port: 0, path: '/mcp', allowedHosts: [], allowedOrigins: [], limits: all, tokens: [] };
  const listener = new HttpListener(settings, mcp, { pending: [], decide: () => Promise.reject(new Error('nothing waits')) }, parts.log);
  onTestFinished(async () => {
    await mcp.close();
    await listener.stop();
  });
  return { endpoint: await listener.start(), mcp, tell };
}
