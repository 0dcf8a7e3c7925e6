import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { expect, onTestFinished, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import type { WriteOutcome } from '../../src/model/write.ts';
import { callTool, clientOptions, deviceMap, readSamples, temporaryFolder, until, writePoint, writeYaml } from '../support/bridge.ts';
import { MAIN, runCli, startCli } from '../support/cli.ts';
import { startPlc } from '../support/plc.ts';

async function plant(safety: object = {}) {
  const server = await startPlc(new MemoryUnit().set('holding', 0, 5));
  const folder = temporaryFolder();
  const audit = join(folder, 'audit.jsonl');
  const points = { level: { holding: 0, write: { max: 100 } } };
  const map = deviceMap(server.port, points, { safety: { writes: 'enabled', audit, ...safety }, stdio: { role: 'operator' } });
  return { audit, folder, map: writeYaml(folder, { ...map, http: { listen: '127.0.0.1:0' } }) };
}

test('audit verify, tail and show tell of writes from the command line, and of what was done to the record', async () => {
  const { audit, map } = await plant();
  expect((await runCli(['write', map, 'd.level', '9', '-r', 'a\u001b[31m test\nof it'])).stdout).toContain('d.level: written');
  expect((await runCli(['write', map, 'd.level', '900'])).stdout).toContain('d.level: refused');

  const verified = await runCli(['audit', 'verify', map]);
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringMatching(/^OK: 3 records, the last 3:[0-9a-f]{64}\n$/) });
  const head = /3:[0-9a-f]{64}/.exec(verified.stdout)?.[0] ?? '';

  const tail = (await runCli(['audit', 'tail', map, '-n', '2'])).stdout.trimEnd().split('\n');
  expect(tail).toHaveLength(2);
  expect(tail[0]).toMatch(/^2 \S+ outcome {2}d\.level {2}written {2}5 -> 9 {2}now 9 {2}by cli:.* why: a\\u001b\[31m test\\u000aof it/);
  expect(tail[1]).toMatch(/^3 \S+ refusal {2}d\.level {2}refused .*rule limits/);
  const id = tail[0]?.split('  ').at(-1) ?? '';
  const shown = await runCli(['audit', 'show', map, id]);
  expect(shown.stdout).toContain('"kind": "intent"');
  expect(shown.stdout).toContain('"kind": "outcome"');
  expect(shown.stdout).not.toContain('\u001b');
  expect(await runCli(['audit', 'show', map, 'nonsense'])).toMatchObject({
    code: 1,
    stderr: 'fieldbridge: there is no record of nonsense\n',
  });

  const lines = readFileSync(audit, 'utf8').trimEnd().split('\n');
  writeFileSync(audit, `${lines[0]}\n${lines[2]}\n`);
  expect(await runCli(['audit', 'verify', map])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(`${audit}:2: record 3 follows record 1: 1 are missing`),
  });
  // Who cuts the end off, and makes the head beside the log fit, is found out by the head in the journal.
  writeFileSync(audit, `${lines[0]}\n`);
  writeFileSync(`${audit}.head`, '');
  expect((await runCli(['audit', 'verify', map])).code).toBe(0);
  expect(await runCli(['audit', 'verify', map, '--head', head])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('the log ends at record 1, but 3 were written'),
  });
  expect((await runCli(['audit', 'verify', map, '--head', 'nonsense'])).stderr).toContain('a head as the journal has it');
});

test('a file that can not grow refuses writes and says so; reading goes on, and with room again so do writes', async () => {
  const { audit, map } = await plant({ max_writes_per_minute: 1000 });
  // As a full disk does it: the system takes no byte beyond this size.
  const client = new Client({ name: 'test', version: '1' }, clientOptions('2025-11-25'));
  const limited = ['-c', 'ulimit -f 4; exec "$0" "$@"', process.execPath, MAIN, 'stdio', map];
  await client.connect(new StdioClientTransport({ command: 'sh', args: limited, stderr: 'ignore' }));
  onTestFinished(() => client.close());
  let refused: WriteOutcome | undefined;
  for (let value = 10; refused === undefined && value < 60; value++) {
    const outcome = await writePoint(client, 'd.level', value);
    if (outcome.status === 'refused') refused = outcome;
  }
  expect(refused).toMatchObject({ rule: 'audit', reason: expect.stringContaining('nothing is written that can not be recorded') });
  const { structured } = await callTool(client, 'get_status');
  expect(structured.bridge).toMatchObject({ write_trouble: expect.stringContaining(`the audit file ${audit} can not be written`) });
  expect((await readSamples(client, ['d.level'], true))[0]?.quality).toBe('good');
  await client.close();
  expect((await runCli(['audit', 'verify', map])).code).toBe(0);
  expect((await runCli(['write', map, 'd.level', '99'])).stdout).toContain('d.level: written');
});

test('a record that was altered keeps the bridge from starting, and reading goes on with --read-only', async () => {
  const { audit, map } = await plant();
  await runCli(['write', map, 'd.level', '9']);
  appendFileSync(audit, '{"kind":"outcome","status":"written"}\n');
  expect(await runCli(['stdio', map])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('was changed, or sealed with another key'),
  });
  expect((await runCli(['stdio', '--read-only', map])).code).toBe(0);
});

test('one bridge at a time writes the record; its head is in the log', async () => {
  const { map } = await plant();
  const daemon = startCli(['run', map]);
  let log = '';
  daemon.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  await until(
    () => log.includes('serving MCP'),
    isUp => isUp,
  );
  expect(log).toMatch(/"audit_head":"0:0{64}"/);
  expect(await runCli(['stdio', map])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(new RegExp(`is in use by process ${daemon.pid}; stop it first`)),
  });
  // Beside it, the command line writes through it.
  expect((await runCli(['write', map, 'd.level', '8', '-r', 'by hand'])).stdout).toContain('d.level: written; was 5, is 8');
  expect((await runCli(['write', map, 'd.level', '800'])).stdout).toContain('above max');
  // One that was killed holds nothing.
  const gone = new Promise(resolve => daemon.on('exit', resolve));
  daemon.kill('SIGKILL');
  await gone;
  expect((await runCli(['write', map, 'd.level', '7'])).stdout).toContain('written');
});
