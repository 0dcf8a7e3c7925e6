import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { expect, onTestFinished, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { callTool, clientOptions, deviceMap, REVISIONS, temporaryFolder, until, writeYaml } from '../support/bridge.ts';
import { runCli, startCli } from '../support/cli.ts';
import { startPlc } from '../support/plc.ts';

interface Line {
  readonly time: string;
  readonly direction: 'in' | 'out';
  readonly transport: string;
  readonly session?: string;
  readonly message: { readonly method?: string; readonly id?: unknown; readonly params?: unknown; readonly result?: unknown };
}

const linesOf = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Line);

async function map(folder: string): Promise<string> {
  const plc = await startPlc(new MemoryUnit().set('holding', 0, 7));
  return writeYaml(folder, deviceMap(plc.port, { a: { holding: 0 } }, { http: { listen: '127.0.0.1:0' } }));
}

test.each(REVISIONS)(
  'over HTTP, %s: what was asked and what was answered, also in streams, each with its time, and no secret',
  async revision => {
    const folder = temporaryFolder();
    const trace = join(folder, 'trace.jsonl');
    const child = startCli(['run', await map(folder), '--trace', trace]);
    let log = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      log += chunk.toString();
    });
    const endpoint = await until(
      () => /"endpoint":"([^"]+)"/.exec(log)?.[1] ?? '',
      found => found !== '',
    );
    const client = new Client({ name: 'test', version: '1' }, clientOptions(revision));
    await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
    onTestFinished(() => client.close());
    await client.callTool({ name: 'read_points', arguments: { points: ['d.a'], token: 'tops3cret' } });
    await callTool(client, 'get_status');
    const answered = () => linesOf(trace).filter(line => line.direction === 'out' && line.message.result !== undefined);
    await until(answered, lines => JSON.stringify(lines).includes('connections'));
    const lines = linesOf(trace);
    expect(lines.every(line => line.transport === 'http' && /^\d{4}-.*Z$/.test(line.time))).toBe(true);
    const calls = lines.filter(line => line.direction === 'in' && line.message.method === 'tools/call');
    expect(calls).toHaveLength(2);
    // Each request has its answer under the same id.
    for (const { message } of calls) expect(answered().filter(line => line.message.id === message.id)).toHaveLength(1);
    expect(JSON.stringify(lines)).toContain('[redacted]');
    expect(readFileSync(trace, 'utf8')).not.toContain('tops3cret');
    if (revision !== '2026-07-28') expect(calls.every(line => line.session !== undefined)).toBe(true);
  },
);

test('over stdio', async () => {
  const folder = temporaryFolder();
  const trace = join(folder, 'trace.jsonl');
  const { code, stdout } = await runCli(
    ['stdio', await map(folder), '--trace', trace],
    `${JSON.stringify({ jsonrpc: '2.0', id: 5, method: 'ping' })}\n`,
  );
  expect(code).toBe(0);
  expect(linesOf(trace).map(({ direction, transport, message }) => [direction, transport, message])).toEqual([
    ['in', 'stdio', { jsonrpc: '2.0', id: 5, method: 'ping' }],
    ['out', 'stdio', JSON.parse(stdout)],
  ]);
});

test('a file that can not be written ends the start with its reason', async () => {
  const folder = temporaryFolder();
  expect(await runCli(['run', await map(folder), '--trace', join(folder, 'no', 'such', 'folder')])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('the trace file'),
  });
});
