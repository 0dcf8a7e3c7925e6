import { readFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import {
  callTool,
  clientOptions,
  type Revision,
  readSamples,
  TestBridge,
  temporaryFolder,
  until,
  writePoint,
  writeYaml,
} from '../support/bridge.ts';
import { ended, MAIN, runCli, startCli } from '../support/cli.ts';
import { freePort } from '../support/free-port.ts';

const SETPOINT = 'plant://boiler/setpoint';

/** A client on standard input and output, attached to a bridge. */
async function attached(endpoint: string, revision: Revision, env: Record<string, string> = {}): Promise<Client> {
  const client = new Client({ name: 'attached', version: '1' }, clientOptions(revision));
  onTestFinished(() => client.close());
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [MAIN, 'stdio', '--attach', endpoint], env, stderr: 'ignore' }),
  );
  return client;
}

/** A daemon of its own process on a port that stays the same, to be killed and started again. */
async function daemon(port: number, plc: number, folder: string) {
  const over = writeYaml(folder, {
    ...overlay(plc),
    safety: { audit: join(folder, 'audit.jsonl') },
    http: { listen: `127.0.0.1:${port}` },
  });
  const child = startCli(['run', BOILER_HOUSE_MAP, over]);
  const end = ended(child);
  let log = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  await until(
    () => log.includes('serving MCP at'),
    isUp => isUp,
  );
  return {
    stop: async (signal: NodeJS.Signals) => {
      child.kill(signal);
      await end;
    },
  };
}

describe.each(['2025-11-25', '2026-07-28'] as const)('an attached client of %s', revision => {
  test('hears what became of its calls while the daemon is away, and goes on when it is back', async () => {
    const { plant, server } = await startBoilerHouse();
    const [folder, port] = [temporaryFolder(), await freePort()];
    const first = await daemon(port, server.port, folder);
    const client = await attached(`http://127.0.0.1:${port}/mcp`, revision);
    const heard: string[] = [];
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri));
    if (revision === '2026-07-28') await client.listen({ resourceSubscriptions: [SETPOINT] });
    else await client.subscribeResource({ uri: SETPOINT });

    const waiting = callTool(client, 'wait_for', { condition: 'boiler.setpoint > 1000.0', timeout: 60 });
    waiting.catch(() => undefined);
    await new Promise(resolve => setTimeout(resolve, 300));
    await first.stop('SIGKILL');
    await expect(waiting).rejects.toThrow('may have been carried out');
    await expect(callTool(client, 'get_status')).rejects.toThrow(/does not answer: .*Nothing was carried out; ask again/);

    const second = await daemon(port, server.port, folder);
    const [sample] = await until(
      () => readSamples(client, ['boiler.setpoint']).catch(() => []),
      ([one]) => one?.quality === 'good',
    );
    expect(sample?.value).toBeCloseTo(plant.state.setpoint, 0);
    // What was subscribed to is told as changed, and what changes from now on is heard.
    await until(
      () => heard.length,
      count => count > 0,
    );
    await new Promise(resolve => setTimeout(resolve, 700));
    heard.length = 0;
    plant.state.setpoint = 71;
    await until(
      () => heard,
      uris => uris.includes(SETPOINT),
    );
    await second.stop('SIGTERM');
  });
});

test('two attached clients share the bridge and its one connection, and each hears its own', async () => {
  const { server } = await startBoilerHouse();
  const bridge = await TestBridge.start(overlay(server.port), { files: [BOILER_HOUSE_MAP] });
  const [old, recent] = [await attached(bridge.endpoint, '2025-06-18'), await attached(bridge.endpoint, '2026-07-28')];
  await until(
    () => readSamples(old, ['boiler.setpoint']),
    ([sample]) => sample?.quality === 'good',
  );
  expect((await writePoint(old, 'boiler.feed_valve', true)).status).toBe('written');
  expect((await readSamples(recent, ['boiler.feed_valve'], true))[0]?.value).toBe(true);
  // An id of one's own travels in a header besides, which a client on a pipe knows nothing of.
  const outcome = await writePoint(recent, 'boiler.feed_valve', false, { request_id: 'Größe 1' });
  expect(outcome.status).toBe('written');
  expect((await writePoint(recent, 'boiler.feed_valve', false, { request_id: 'Größe 1' })).audit_id).toBe(outcome.audit_id);
  await expect(recent.callTool({ name: 'no_such_tool' })).rejects.toThrow('Unknown tool');
});

test('a cancelled call is stopped at the bridge, and the end of input ends the session', async () => {
  const { server } = await startBoilerHouse();
  const bridge = await TestBridge.start(overlay(server.port), { files: [BOILER_HOUSE_MAP] });
  for (const revision of ['2025-11-25', '2026-07-28'] as const) {
    const client = await attached(bridge.endpoint, revision);
    const controller = new AbortController();
    const call = client.callTool({ name: 'wait_for', arguments: { condition: 'boiler.setpoint > 1000.0' } }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 200);
    await expect(call).rejects.toThrow();
    expect((await callTool(client, 'get_status')).isError).toBe(false);
    await client.close();
  }
  await until(
    () => bridge.open,
    open => open.sessions === 0 && open.streams === 0,
  );
});

test('the token goes with each request, from the environment or a file, and is in no log', async () => {
  const bridge = await TestBridge.start({ connections: {}, devices: {} });
  const secret = 'token-0123456789';
  let refused = 0;
  const guard = createServer((request, response) => {
    if (request.headers.authorization !== `Bearer ${secret}`) {
      refused++;
      response.writeHead(401).end();
      return;
    }
    const onward = httpRequest(bridge.endpoint, { method: request.method, headers: request.headers }, answer => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  await new Promise<void>(resolve => void guard.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    guard.closeAllConnections();
    guard.close();
  });
  const url = `http://127.0.0.1:${(guard.address() as AddressInfo).port}/mcp`;
  const client = await attached(url, '2025-11-25', { FIELDBRIDGE_TOKEN: secret });
  expect((await client.listTools()).tools.length).toBeGreaterThan(3);
  expect(refused).toBe(0);

  const initialize = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } } })}\n`;
  const file = writeYaml(temporaryFolder(), `${secret}\n`, 'token');
  const [right, wrong] = [
    await runCli(['stdio', '--attach', url, '--token-file', file], initialize),
    await runCli(['stdio', '--attach', url], initialize),
  ];
  expect(JSON.parse(right.stdout)).toMatchObject({ id: 1, result: { protocolVersion: '2025-11-25' } });
  expect(JSON.parse(wrong.stdout)).toMatchObject({ id: 1, error: { message: expect.stringContaining('refuses the caller (HTTP 401)') } });
  for (const { code, stdout, stderr } of [right, wrong]) {
    expect(code).toBe(0);
    expect(stdout + stderr).not.toContain(secret);
  }
});

test('requests that are piped in all at once are one session, in their order', async () => {
  const bridge = await TestBridge.start({ connections: {}, devices: {} });
  const folder = temporaryFolder();
  const lines = [
    { id: 1, method: 'initialize', params: { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: { name: 'x', version: '1' } } },
    { method: 'notifications/initialized' },
    { id: 2, method: 'tools/list' },
    { id: 3, method: 'ping' },
  ].map(message => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const trace = join(folder, 'trace.jsonl');
  const { code, stdout } = await runCli(['stdio', '--attach', bridge.endpoint, '--trace', trace], lines.join(''));
  expect(code).toBe(0);
  const answers = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as { id: number; result?: { protocolVersion?: string } });
  expect(answers.map(({ id }) => id).sort()).toEqual([1, 2, 3]);
  expect(answers.find(({ id }) => id === 1)?.result?.protocolVersion).toBe('2024-11-05');
  expect(bridge.open).toEqual({ sessions: 0, streams: 0 });
  expect(readFileSync(trace, 'utf8').trimEnd().split('\n')).toHaveLength(7);
});

test('what can not be attached to is said in a sentence', async () => {
  const port = await freePort();
  for (const [args, code, words] of [
    [['stdio'], 2, 'a configuration'],
    [['stdio', '--attach', 'http://127.0.0.1:1/mcp', BOILER_HOUSE_MAP], 2, 'no configuration beside --attach'],
    [['stdio', '--attach', 'plc:502'], 1, 'the address of a running bridge such as http://127.0.0.1:8502/mcp is expected'],
    [['stdio', '--attach', 'http://me:secret@127.0.0.1/mcp'], 1, 'without user and password'],
    [['stdio', '--attach', `http://127.0.0.1:${port}/mcp`, '--token-file', '/nowhere/token'], 1, 'can not be read'],
  ] as const) {
    const result = await runCli(args);
    expect([args, result.code]).toEqual([args, code]);
    expect(result.stderr).toContain(words);
    expect(result.stdout).toBe('');
  }
});
