import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import { temporaryFolder, until, writeYaml } from '../support/bridge.ts';
import { ended, runCli, startCli } from '../support/cli.ts';

const initialize = (protocolVersion: string) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'pipe', version: '1' } },
});
const lines = (...messages: object[]): string => messages.map(message => `${JSON.stringify(message)}\n`).join('');

function files(port: number): string[] {
  const folder = temporaryFolder();
  return [BOILER_HOUSE_MAP, writeYaml(folder, { ...overlay(port), safety: { audit: join(folder, 'audit.jsonl') } })];
}

test('a piped initialize and tools/list print two JSON lines, nothing else, and end with 0', async () => {
  // Nobody answers on the PLC's port: that is no reason not to answer the client.
  const { code, stdout, stderr } = await runCli(
    ['stdio', ...files(9)],
    lines(initialize('2025-11-25'), { jsonrpc: '2.0', id: 2, method: 'tools/list' }),
  );
  expect(code).toBe(0);
  const replies = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as { id: number; result: { tools?: unknown[]; protocolVersion?: string } });
  expect(replies.map(reply => reply.id)).toEqual([1, 2]);
  expect(replies[0]?.result.protocolVersion).toBe('2025-11-25');
  expect(replies[1]?.result.tools?.length).toBeGreaterThan(5);
  for (const line of stderr.split('\n').filter(Boolean)) expect(() => JSON.parse(line)).not.toThrow();
});

test('a piped call that takes its time is answered before the end', async () => {
  const { server } = await startBoilerHouse();
  const call = {
    jsonrpc: '2.0',
    id: 2,
    method: 'tools/call',
    params: { name: 'wait_for', arguments: { condition: 'boiler.setpoint > 60.0', timeout: 10 } },
  };
  const { code, stdout } = await runCli(
    ['stdio', ...files(server.port)],
    lines(initialize('2025-06-18'), { jsonrpc: '2.0', method: 'notifications/initialized' }, call),
  );
  expect(code).toBe(0);
  const replies = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as { id?: number; result?: { structuredContent?: { fired?: boolean } } });
  expect(replies.find(reply => reply.id === 2)?.result?.structuredContent?.fired).toBe(true);
});

test('a read that comes before the first poll waits for it', async () => {
  const { server } = await startBoilerHouse();
  const call = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'read_temperature', arguments: {} } };
  const read = { jsonrpc: '2.0', id: 3, method: 'resources/read', params: { uri: 'plant://boiler/setpoint' } };
  const { stdout } = await runCli(['stdio', ...files(server.port)], lines(initialize('2025-11-25'), call, read));
  expect(stdout.match(/\\"quality\\":\\"good\\"|"quality":"good"/g)).toHaveLength(4);
  const nobody = await runCli(['stdio', ...files(9)], lines(initialize('2025-11-25'), call));
  expect(nobody.stdout.match(/"reason":"no_connection"/g)).toHaveLength(3);
});

test('no input at all ends cleanly, and nothing is printed', async () => {
  expect(await runCli(['stdio', ...files(9)])).toMatchObject({ code: 0, stdout: '' });
});

interface Line {
  readonly id?: number | string | null;
  readonly result?: object;
  readonly error?: { readonly code: number; readonly message: string };
}
const parsed = (stdout: string): (Line | Line[])[] =>
  stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Line | Line[]);

test('lines that are no JSON-RPC are answered as the specification says, and do not end the bridge', async () => {
  const long = JSON.stringify({ jsonrpc: '2.0', id: 9, method: 'ping', params: { text: 'x'.repeat(1_000_000) } });
  const { code, stdout } = await runCli(
    ['stdio', ...files(9)],
    `hello\n{"jsonrpc":"2.0","id":\n{"id":7,"method":"ping"}\n5\n${long}\n\n${lines(initialize('2025-11-25'))}`,
  );
  expect(code).toBe(0);
  const replies = parsed(stdout) as Line[];
  expect(replies.filter(({ error }) => error).map(({ id, error }) => [id, error?.code])).toEqual([
    [null, -32700],
    [null, -32700],
    [7, -32600],
    [null, -32600],
    [null, -32600],
  ]);
  expect(replies.some(reply => reply.id === 1 && reply.result !== undefined)).toBe(true);
});

test('a batch is answered in one line in 2025-03-26, and refused by name in the revisions after it', async () => {
  const ask = (id: number, method: string) => ({ jsonrpc: '2.0', id, method });
  const batch = [ask(5, 'ping'), { jsonrpc: '2.0', method: 'notifications/initialized' }, ask(6, 'tools/list'), ask(7, 'no/such')];
  // The revision is known from the answer to initialize on.
  const session = async (revision: string): Promise<(Line | Line[])[]> => {
    const child = startCli(['stdio', ...files(9)]);
    const end = ended(child);
    child.stdin?.write(lines(initialize(revision)));
    await new Promise(resolve => child.stdout?.once('data', resolve));
    child.stdin?.end(lines(batch, [], [ask(8, 'initialize')]));
    return parsed((await end).stdout);
  };
  const [, ...answers] = await session('2025-03-26');
  const answered = answers.find(Array.isArray) ?? [];
  expect(answered.map(({ id, error }) => [id, error?.code]).sort()).toEqual([
    [5, undefined],
    [6, undefined],
    [7, -32601],
  ]);
  const refused = answers.filter((answer): answer is Line => !Array.isArray(answer));
  expect(refused.map(({ id, error }) => [id, error?.code])).toEqual([
    [null, -32600],
    [null, -32600],
  ]);
  const [, ...later] = (await session('2025-06-18')) as Line[];
  expect(later.map(({ error }) => error?.code)).toEqual([-32600, -32600, -32600]);
  expect(later[0]?.error?.message).toContain('2025-06-18');
});

test('a client that does not read is cut, and the log says why', async () => {
  const child = startCli(['stdio', ...files(9)]);
  let log = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  const exited = new Promise(resolve => child.on('exit', resolve));
  child.stdin?.on('error', () => undefined);
  child.stdin?.write(lines(initialize('2025-11-25')));
  const list = lines(...Array.from({ length: 1000 }, (_, id) => ({ jsonrpc: '2.0', id: id + 2, method: 'tools/list' })));
  child.stdin?.write(list);
  expect(await exited).toBe(0);
  expect(log).toContain('bytes unread');
});

test('the trace that a call belongs to is in the log, whatever the client calls so is not', async () => {
  const { server } = await startBoilerHouse();
  const call = (id: number, traceparent: string) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 'get_status', arguments: {}, _meta: { traceparent, tracestate: 'vendor=1' } },
  });
  const { stderr } = await runCli(
    ['stdio', ...files(server.port)],
    lines(initialize('2025-11-25'), call(2, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'), call(3, 'nothing\nof "the kind')),
  );
  const logged = stderr
    .split('\n')
    .filter(line => line.includes('get_status'))
    .map(line => JSON.parse(line) as object);
  expect(logged).toEqual([
    expect.objectContaining({
      tool: 'get_status',
      trace_id: '0af7651916cd43dd8448eb211c80319c',
      span_id: 'b7ad6b7169203331',
      tracestate: 'vendor=1',
    }),
  ]);
});

test('a client that goes away without a word ends the bridge', async () => {
  const child = startCli(['stdio', ...files(9)]);
  const end = ended(child);
  child.stdin?.write(lines(initialize('2025-11-25')));
  await new Promise(resolve => child.stdout?.once('data', resolve));
  child.stdout?.destroy();
  child.stdin?.end();
  expect((await end).code).toBe(0);
});

test('SIGTERM ends the daemon with 0, and a port in use with 1 and a sentence', async () => {
  const folder = temporaryFolder();
  const over = writeYaml(folder, { ...overlay(9), safety: { audit: join(folder, 'audit.jsonl') }, http: { listen: '127.0.0.1:0' } });
  const first = startCli(['run', BOILER_HOUSE_MAP, over]);
  let log = '';
  first.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  const end = ended(first);
  const [, port] =
    (await until(
      () => /127\.0\.0\.1:(\d+)\/mcp/.exec(log),
      found => found !== null,
    )) ?? [];
  const second = await runCli([
    'run',
    BOILER_HOUSE_MAP,
    writeYaml(folder, { http: { listen: `127.0.0.1:${port}` }, safety: { audit: join(folder, 'other.jsonl') } }, 'second.yaml'),
  ]);
  expect(second).toMatchObject({ code: 1, stdout: '' });
  expect(second.stderr).toContain(`fieldbridge: can not listen on 127.0.0.1:${port}: the port is in use already`);
  first.kill('SIGTERM');
  expect((await end).code).toBe(0);
});

test('an audit file that can not be opened refuses the start where writes are enabled', async () => {
  const folder = temporaryFolder();
  const over = writeYaml(folder, { safety: { audit: 'map.yaml/audit.jsonl' } });
  expect(await runCli(['stdio', BOILER_HOUSE_MAP, over])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^fieldbridge: the audit file .*map\.yaml\/audit\.jsonl can not be opened: a part of its path is not a folder\n$/,
    ),
  });
  expect(await runCli(['stdio', '--read-only', BOILER_HOUSE_MAP, over])).toMatchObject({ code: 0 });
});
