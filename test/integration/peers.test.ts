import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { PublicSample } from '../../src/model/sample.ts';
import { readSamples, TestBridge, temporaryFolder, until, writePoint } from '../support/bridge.ts';
import { freePort } from '../support/free-port.ts';
import { needsPython, needsSystem } from '../support/system.ts';

/** Debian's Python has the packages; another one on the path may not. */
const PYTHON = '/usr/bin/python3';
const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

const POINTS = {
  h: { holding: 5, write: {} },
  far: { holding: 150 },
  i: { input: 7 },
  c: { coil: 3, write: {} },
  d: { discrete: 4 },
  f: { holding: 20, type: 'float32', write: {} },
  bit: { holding: 30, type: 'bool', bit: 8, write: {} },
  missing: { holding: 500 },
};

/** Starts a program and waits until it says so; it does not outlive the test. */
async function start(program: string, args: readonly string[], says: RegExp): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  await until(
    () => output,
    text => says.test(text),
  );
  return child;
}

const isRead = (samples: readonly PublicSample[]): boolean =>
  samples.every(sample => sample.reason !== 'initialising' && sample.reason !== 'no_connection');

/** What any right server answers to the same map. */
async function checkPeer(connection: object): Promise<TestBridge> {
  const bridge = await TestBridge.start({
    connections: { peer: { timeout: '500ms', reconnect: { initial: '50ms', max: '200ms' }, ...connection } },
    devices: { d: { connection: 'peer', unit_id: 1, poll_interval: '100ms', points: POINTS } },
    safety: { writes: 'enabled' },
  });
  const client = await bridge.client();
  const samples = await until(() => readSamples(client, ['d.*']), isRead);
  const value = (id: string) => samples.find(sample => sample.point === `d.${id}`);
  expect(['h', 'far', 'i', 'c', 'd', 'bit'].map(id => value(id)?.value)).toEqual([5, 150, 7, true, false, false]);
  expect(value('missing')).toMatchObject({ quality: 'bad', reason: 'exception', exception: { code: 2 } });
  expect(await writePoint(client, 'd.h', 4711)).toMatchObject({ status: 'written', before: 5, after: 4711 });
  expect(await writePoint(client, 'd.f', -2.5)).toMatchObject({ status: 'written', after: -2.5 });
  expect(await writePoint(client, 'd.c', false)).toMatchObject({ status: 'written', before: true });
  expect(await writePoint(client, 'd.bit', true)).toMatchObject({ status: 'written', before: false, after: true });
  expect(
    (
      await until(
        () => readSamples(client, ['d.h', 'd.f']),
        ([h]) => h?.value === 4711,
      )
    ).map(sample => sample.value),
  ).toEqual([4711, -2.5]);
  return bridge;
}

describe('servers that others wrote', () => {
  test.skipIf(needsSystem('cc'))('libmodbus over TCP', async () => {
    const program = join(temporaryFolder(), 'server');
    execFileSync('cc', ['-o', program, here('libmodbus-server.c'), '-lmodbus']);
    const port = await freePort();
    await start(program, [String(port)], /ready/);
    await checkPeer({ type: 'modbus-tcp', host: '127.0.0.1', port });
  });

  test.skipIf(needsPython('pymodbus'))('pymodbus over TCP', async () => {
    const port = await freePort();
    await start(PYTHON, [here('pymodbus-server.py'), 'tcp', String(port)], /ready/);
    await checkPeer({ type: 'modbus-tcp', host: '127.0.0.1', port });
  });

  test.skipIf(needsSystem('socat') || needsPython('serial_asyncio'))(
    'pymodbus as RTU on a pair of serial devices, pulled out and plugged in again',
    async () => {
      const folder = temporaryFolder();
      const [ours, theirs] = [join(folder, 'ours'), join(folder, 'theirs')];
      const plug = () =>
        start('socat', ['-d', '-d', `pty,raw,echo=0,link=${ours}`, `pty,raw,echo=0,link=${theirs}`], /starting data transfer/);
      const cable = await plug();
      const server = await start(PYTHON, [here('pymodbus-server.py'), 'rtu', theirs], /ready/);
      const bridge = await checkPeer({ type: 'modbus-rtu', path: ours, baud_rate: 19200, parity: 'none' });
      const client = await bridge.client();
      const read = () => readSamples(client, ['d.far']);
      server.kill('SIGKILL');
      cable.kill('SIGKILL');
      expect((await until(read, ([sample]) => sample?.quality === 'bad'))[0]).toMatchObject({ value: null, last_good: { value: 150 } });
      await plug();
      await start(PYTHON, [here('pymodbus-server.py'), 'rtu', theirs], /ready/);
      expect((await until(read, ([sample]) => sample?.quality === 'good'))[0]?.value).toBe(150);
    },
  );
});
