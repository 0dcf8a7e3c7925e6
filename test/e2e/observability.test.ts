import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import pino from 'pino';
import { describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { FoldedLog } from '../../src/cli/folded-log.ts';
import { callTool, deviceMap, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { messages, send } from '../support/raw-http.ts';
import { safePlant } from '../support/safe-plant.ts';
import { needsSystem } from '../support/system.ts';

const MONITORING = fileURLToPath(new URL('../../packaging/monitoring/', import.meta.url));
const get = (bridge: TestBridge, path: string, headers: Record<string, string> = {}) =>
  send(bridge.endpoint, { method: 'GET', path, headers });

/** Samples by name and labels, as they stand there. */
async function metricsOf(bridge: TestBridge): Promise<ReadonlyMap<string, number>> {
  const { body } = await get(bridge, '/metrics');
  return new Map([...body.matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)].map(([, name = '', value]) => [name, Number(value)]));
}

test('the bridge says that it is alive, which connections are there, and to strangers no more than whether all are', async () => {
  const { plc, bridge } = await safePlant({ p: { holding: 0 } });
  expect((await get(bridge, '/healthz')).body).toBe('{"status":"alive"}');
  const ready = await get(bridge, '/readyz');
  expect([ready.status, JSON.parse(ready.body)]).toMatchObject([
    200,
    { status: 'ready', connections: [{ name: 'plc', state: 'connected' }] },
  ]);
  await plc.stop();
  const away = await until(
    () => get(bridge, '/readyz'),
    ({ status }) => status === 503,
  );
  expect(JSON.parse(away.body)).toMatchObject({
    status: 'not ready',
    connections: [{ name: 'plc', state: 'disconnected', last_error: expect.any(String) }],
  });
  expect((await get(bridge, '/healthz')).status).toBe(200);
  const tokens = [{ name: 'monitor', role: 'viewer', sha256: createHash('sha256').update('secret').digest('hex') }];
  const closed = await TestBridge.start({ ...deviceMap(9, { p: { holding: 0 } }), http: { auth: { tokens } } });
  const authorization = 'Bearer secret';
  expect((await get(closed, '/healthz')).status).toBe(200);
  await until(
    () => get(closed, '/readyz'),
    ({ body }) => body === '{"status":"not ready"}',
  );
  expect((await get(closed, '/readyz', { authorization })).body).toContain('"connections"');
  expect((await get(closed, '/readyz', { authorization: 'Bearer wrong' })).status).toBe(401);
  expect((await get(closed, '/metrics')).status).toBe(401);
  expect((await get(closed, '/metrics', { authorization })).status).toBe(200);
});

test('everything is counted by names of the map: polls, requests, failures, calls, writes, notifications', async () => {
  const { bridge, client, unit } = await safePlant({ p: { holding: 0, write: {} }, q: { holding: 1 } });
  const subscribed = await bridge.client('2025-11-25');
  const heard: string[] = [];
  subscribed.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri));
  await subscribed.subscribeResource({ uri: 'plant://d/q' });
  await until(
    () => bridge.open,
    ({ streams }) => streams === 1,
  );
  unit.set('holding', 1, 99);
  await until(
    () => heard,
    uris => uris.length > 0,
  );
  expect((await writePoint(client, 'd.p', 5)).status).toBe('written');
  expect((await writePoint(client, 'd.p', 70_000)).status).toBe('refused');
  await expect(callTool(client, 'made_up_by_the_model')).rejects.toThrow();
  const metrics = await metricsOf(bridge);
  const at = (name: string) => metrics.get(name) ?? Number.NaN;
  expect(at('fieldbridge_info{name="test",version="0.0.0",writes="enabled"}')).toBe(1);
  expect(at('fieldbridge_connection_up{connection="plc",type="modbus-tcp"}')).toBe(1);
  expect(at('fieldbridge_device_up{connection="plc",device="d"}')).toBe(1);
  expect(at('fieldbridge_polls_total{connection="plc",device="d"}')).toBeGreaterThan(0);
  expect(at('fieldbridge_requests_total{connection="plc"}')).toBeGreaterThan(0);
  expect(at('fieldbridge_round_trip_seconds_count{connection="plc"}')).toBeGreaterThan(0);
  expect(at('fieldbridge_round_trip_seconds_bucket{connection="plc",le="+Inf"}')).toBe(
    at('fieldbridge_round_trip_seconds_count{connection="plc"}'),
  );
  expect(at('fieldbridge_points{quality="good"}')).toBe(2);
  expect(at('fieldbridge_writes_total{status="written"}')).toBe(1);
  expect(at('fieldbridge_writes_total{status="refused"}')).toBe(1);
  expect(at('fieldbridge_mcp_requests_total{tool="write_point",outcome="ok"}')).toBe(1);
  expect(at('fieldbridge_mcp_requests_total{tool="write_point",outcome="refused"}')).toBe(1);
  expect(at('fieldbridge_mcp_requests_total{tool="",outcome="unknown"}')).toBe(1);
  expect([...metrics.keys()].join()).not.toContain('made_up');
  expect(at('fieldbridge_notifications_total{kind="resource_updated"}')).toBeGreaterThan(0);
  expect(at('fieldbridge_mcp_sessions')).toBe(1);
  expect(at('nodejs_eventloop_lag_p99_seconds')).toBeGreaterThanOrEqual(0);
  expect(at('process_resident_memory_bytes')).toBeGreaterThan(1_000_000);
});

test('failures of requests are told apart', async () => {
  const { bridge, unit, client } = await safePlant({ p: { holding: 0 } });
  unit.unknownFunctions = new Set([3]);
  await until(
    () => readSamples(client, ['d.p']),
    ([sample]) => sample?.reason === 'exception',
  );
  const metrics = await metricsOf(bridge);
  expect(metrics.get('fieldbridge_request_errors_total{connection="plc",reason="exception"}')).toBeGreaterThan(0);
  expect(metrics.get('fieldbridge_request_errors_total{connection="plc",reason="timeout"}')).toBe(0);
});

describe.skipIf(needsSystem('promtool'))("Prometheus' own tool", () => {
  test('finds no fault with the metrics', async () => {
    const { bridge, client } = await safePlant({ p: { holding: 0, write: {} } });
    await writePoint(client, 'd.p', 5);
    const { body, headers } = await get(bridge, '/metrics');
    expect(headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
    expect(execFileSync('promtool', ['check', 'metrics'], { input: body, stdio: ['pipe', 'pipe', 'pipe'] }).toString()).toBe('');
  });

  test('takes the shipped alerts, and they fire when they should', () => {
    const run = (...args: string[]) => execFileSync('promtool', args, { cwd: MONITORING, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
    expect(run('check', 'rules', 'alerts.yaml')).toContain('SUCCESS');
    expect(run('test', 'rules', 'alerts.test.yaml')).toContain('SUCCESS');
  });
});

test('dashboard and alerts ask for metrics that there are', async () => {
  const { bridge, client } = await safePlant({ p: { holding: 0, write: {} } });
  await writePoint(client, 'd.p', 5);
  const { body } = await get(bridge, '/metrics');
  const known = new Set([...body.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
  const dashboard = JSON.parse(readFileSync(`${MONITORING}dashboard.json`, 'utf8')) as { panels: { targets: { expr: string }[] }[] };
  const alerts = parse(readFileSync(`${MONITORING}alerts.yaml`, 'utf8')) as { groups: { rules: { expr: string }[] }[] };
  const asked = [
    ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
    ...alerts.groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
  ].flatMap(expr => expr.match(/\b(fieldbridge|nodejs|process)_\w+/g) ?? []);
  expect(asked.length).toBeGreaterThan(15);
  expect(asked.map(name => name.replace(/_(bucket|sum|count)$/, '')).filter(name => !known.has(name))).toEqual([]);
});

describe('the log', () => {
  test('tells what goes on and on a few times, and then how often it came', async () => {
    vi.useFakeTimers();
    try {
      const lines: { level: number; msg: string; connection?: string; attempt?: number }[] = [];
      const root = pino({ level: 'info', base: null }, { write: line => void lines.push(JSON.parse(line) as (typeof lines)[number]) });
      const log = new FoldedLog(root);
      const [one, two] = [log.child({ connection: 'one' }), log.child({ connection: 'two' })];
      for (let attempt = 1; attempt <= 417; attempt++) one.warn({ attempt }, 'no reply');
      two.warn({}, 'no reply');
      one.warn({}, 'another thing');
      await vi.advanceTimersByTimeAsync(30_000);
      const told = lines.map(({ msg, connection, attempt }) => [connection, msg, attempt]);
      expect(told.slice(0, 5)).toEqual([1, 2, 3, 4, 5].map(attempt => ['one', 'no reply', attempt]));
      expect(told.slice(5)).toEqual([
        ['two', 'no reply', undefined],
        ['one', 'another thing', undefined],
      ]);
      await vi.advanceTimersByTimeAsync(32_000);
      expect(lines.slice(7).map(({ msg, connection, level, attempt }) => [level, connection, msg, attempt])).toEqual([
        [40, 'one', 'no reply (412 more times in the last minute)', 417],
      ]);
      one.warn({}, 'no reply');
      expect(lines).toHaveLength(9);
      log.level = 'silent';
      one.warn({}, 'unheard');
      log.level = 'debug';
      for (let i = 0; i < 3; i++) one.debug({}, 'everything');
      expect(lines.slice(9).map(({ msg }) => msg)).toEqual(['everything', 'everything', 'everything']);
      // However many different ones there are, few are remembered.
      for (let i = 0; i < 5000; i++) one.warn({}, `number ${i}`);
      expect(log.watched).toBeLessThanOrEqual(1000);
    } finally {
      vi.useRealTimers();
    }
  });
});

test('what a call answers with counts, whoever called', async () => {
  const { bridge } = await safePlant({ p: { holding: 0 } });
  const reply = await send(bridge.endpoint, { path: '/nowhere', method: 'GET' });
  expect([reply.status, messages(reply)]).toMatchObject([404, [{ error: expect.stringContaining('MCP is served at /mcp') }]]);
  const other = await send(bridge.endpoint, { method: 'PUT' });
  expect([other.status, other.headers.allow]).toEqual([405, 'GET, POST, DELETE']);
  const posted = await send(bridge.endpoint, { path: '/healthz', method: 'DELETE' });
  expect([posted.status, posted.headers.allow]).toEqual([405, 'GET']);
  const metrics = await metricsOf(bridge);
  expect(metrics.get('fieldbridge_http_responses_total{status="404"}')).toBe(1);
  expect(metrics.get('fieldbridge_http_responses_total{status="405"}')).toBe(2);
});
