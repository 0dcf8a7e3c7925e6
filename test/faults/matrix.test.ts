import { spawn } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/client';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Fault, FaultyWire } from '../../simulators/faulty-wire.ts';
import { Exception, MemoryUnit } from '../../simulators/modbus-server.ts';
import type { ConnectionStatus, DeviceStatus } from '../../src/drivers/driver.ts';
import type { PublicSample } from '../../src/model/sample.ts';
import {
  callTool,
  connectTo,
  deviceMap,
  goodOnes,
  readSamples,
  TestBridge,
  temporaryFolder,
  until,
  writePoint,
  writeYaml,
} from '../support/bridge.ts';
import { ended, MAIN } from '../support/cli.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { startPlc } from '../support/plc.ts';
import { initialize, send } from '../support/raw-http.ts';
import { safePlant } from '../support/safe-plant.ts';
import { stolenTime } from '../support/stolen-time.ts';
import { needsSystem } from '../support/system.ts';

const TIMEOUT = 200;
const INTERVAL = 50;
/** Two requests that time out, and what a busy machine adds. */
const SOON = 3000;

const wireTo = (port: number, more: object = {}) => ({
  type: 'modbus-tcp',
  host: '127.0.0.1',
  port,
  timeout: `${TIMEOUT}ms`,
  reconnect: { initial: '50ms', max: '200ms' },
  ...more,
});

/** A device behind a wire that can fail, and another that has nothing to do with it. */
async function twoDevices(connection: object = {}, device: object = {}) {
  const unit = new MemoryUnit().set('holding', 0, 7, 8, 9);
  const plc = await startPlc(unit);
  const other = await startPlc(new MemoryUnit().set('holding', 0, 1));
  const wire = await new FaultyWire(plc.port).start();
  onTestFinished(() => wire.stop());
  const bridge = await TestBridge.start({
    connections: { bad: wireTo(wire.port, connection), good: wireTo(other.port) },
    devices: {
      victim: { connection: 'bad', poll_interval: `${INTERVAL}ms`, points: { p: { holding: 0 }, q: { holding: 2 } }, ...device },
      other: { connection: 'good', poll_interval: `${INTERVAL}ms`, points: { p: { holding: 0 } } },
    },
  });
  const client = await bridge.client();
  const victim = () => readSamples(client, ['victim.p', 'victim.q']);
  await goodOnes(client, ['victim.p', 'victim.q']);
  return { unit, plc, wire, bridge, client, victim };
}

async function statusOf(client: Client, device: string): Promise<DeviceStatus> {
  const { structured } = await callTool(client, 'get_status');
  const found = (structured.devices as DeviceStatus[]).find(({ name }) => name === device);
  if (found === undefined) throw new Error(`no device ${device}`);
  return found;
}

/** What a fault does to others: nothing. */
async function keepsItsRate<T>(client: Client, during: () => Promise<T>, device = 'other'): Promise<T> {
  const before = await statusOf(client, device);
  const began = performance.now();
  const stolen = stolenTime();
  const result = await during();
  const after = await statusOf(client, device);
  const due = (performance.now() - began) / INTERVAL;
  expect(after.state).toBe('polling');
  // A machine that is busy with other tests skips a slot, and counts it.
  expect(after.cycles + after.late_cycles - before.cycles - before.late_cycles).toBeGreaterThan(due * 0.9 - 3);
  // One that waited for the other's timeouts would lose three of four.
  expect(after.late_cycles - before.late_cycles).toBeLessThanOrEqual(Math.max(5, due * 0.3) + (2 * stolen()) / INTERVAL);
  return result;
}

const RIGHT = [7, 9];
const isRight = (samples: readonly PublicSample[]): boolean =>
  samples.every(({ value, quality }, i) => value === RIGHT[i] && quality === 'good');
/** Never a number that the device does not have. */
const isHonest = (samples: readonly PublicSample[]): boolean =>
  samples.every(({ value, quality }, i) => (quality === 'bad' ? value === null : value === RIGHT[i]));

const FAULTS: readonly (readonly [name: string, fault: Fault, reasons: readonly string[]])[] = [
  ['answers that are lost', { kind: 'drop' }, ['timeout']],
  ['answers that come too late', { kind: 'delay', ms: TIMEOUT * 1.5 }, ['timeout']],
  ['a reset in the middle of a frame', { kind: 'reset', after: 5 }, ['no_connection']],
  ['a connection that is half open', { kind: 'half-open' }, ['timeout']],
  ['frames that are cut short', { kind: 'truncate', bytes: 9 }, ['timeout']],
  ['a wrong transaction number', { kind: 'corrupt', at: 1 }, ['timeout', 'no_connection']],
  ['a wrong protocol number', { kind: 'corrupt', at: 3 }, ['timeout', 'no_connection']],
  ['a wrong length', { kind: 'corrupt', at: 5 }, ['timeout', 'no_connection']],
  ['a wrong unit', { kind: 'corrupt', at: 6 }, ['timeout', 'no_connection']],
  ['a wrong function', { kind: 'corrupt', at: 7 }, ['timeout', 'no_connection']],
  ['a wrong count of bytes', { kind: 'corrupt', at: 8 }, ['timeout', 'no_connection']],
  ['something that is no Modbus', { kind: 'replace', by: Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n') }, ['timeout', 'no_connection']],
];

describe('a wire with', () => {
  test.each(FAULTS)(
    '%s: its device is bad with the reason, others keep their rate, and it comes back by itself',
    async (_, fault, reasons) => {
      const { wire, client, victim } = await twoDevices();
      await keepsItsRate(client, async () => {
        wire.fault = fault;
        const samples = await until(victim, list => list.every(({ quality }) => quality === 'bad'), SOON);
        for (const sample of samples) {
          expect(reasons).toContain(sample.reason);
          expect([sample.value, sample.last_good?.value]).toEqual([null, sample.point === 'victim.p' ? 7 : 9]);
        }
        // It stays so, and nothing wrong slips through between two attempts.
        for (let i = 0; i < 20; i++) {
          expect(isHonest(await victim())).toBe(true);
          await new Promise(resolve => setTimeout(resolve, 20));
        }
      });
      wire.fault = undefined;
      await until(victim, isRight, SOON + 2000);
      const { structured } = await callTool(client, 'get_status');
      const bad = (structured.connections as ConnectionStatus[]).find(({ name }) => name === 'bad');
      if (bad === undefined) throw new Error('no connection bad');
      const { timeouts, protocol_errors, lost_requests } = bad;
      if (fault.kind === 'reset') expect(lost_requests).toBeGreaterThan(0);
      else expect(timeouts + protocol_errors).toBeGreaterThan(0);
    },
  );

  test.each([
    ['answers that come twice', { kind: 'duplicate' }],
    ['bytes that come one by one', { kind: 'throttle', ms: 2 }],
  ] as const)('%s: the values stay right', async (_, fault) => {
    // On a busy machine slow bytes are slower still.
    const { wire, client, victim } = await twoDevices({ timeout: '5s' });
    wire.fault = fault;
    const before = await statusOf(client, 'victim');
    for (let i = 0; i < 20; i++) {
      expect((await victim()).map(({ value }) => value)).toEqual(RIGHT);
      await new Promise(resolve => setTimeout(resolve, 25));
    }
    expect((await statusOf(client, 'victim')).cycles).toBeGreaterThan(before.cycles);
  });
});

test('a device that refuses connections, and one that flaps: no more attempts than the pauses allow', async () => {
  const { plc, wire, client, victim } = await twoDevices();
  await keepsItsRate(client, async () => {
    const { port } = wire;
    await wire.stop();
    await until(victim, samples => samples.every(({ reason }) => reason === 'no_connection'), SOON);
    await wire.start(port);
    await until(victim, isRight, SOON);
    const before = wire.connections;
    for (let i = 0; i < 10; i++) {
      for (const socket of (wire as unknown as { sockets: Set<Socket> }).sockets) socket.destroy();
      await new Promise(resolve => setTimeout(resolve, 100));
      expect(isHonest(await victim())).toBe(true);
    }
    expect(wire.connections - before).toBeLessThanOrEqual(20);
  });
  await until(victim, isRight, SOON);
  expect(plc.openConnections).toBe(1);
});

test('a storm of exceptions: the points are bad with the exception, and others keep their rate', async () => {
  const { unit, client, victim } = await twoDevices();
  const read = unit.read.bind(unit);
  await keepsItsRate(client, async () => {
    unit.read = () => new Exception(4);
    const [sample] = await until(victim, samples => samples.every(({ reason }) => reason === 'exception'), SOON);
    expect(sample?.exception).toEqual({ code: 4, name: 'server device failure' });
    await new Promise(resolve => setTimeout(resolve, 500));
  });
  unit.read = read;
  await until(victim, isRight, SOON);
});

test('a name that nobody knows is said to be that, and holds up nobody', async () => {
  const other = await startPlc(new MemoryUnit().set('holding', 0, 1));
  const bridge = await TestBridge.start({
    connections: { bad: { ...wireTo(502), host: 'plc.invalid' }, good: wireTo(other.port) },
    devices: {
      victim: { connection: 'bad', points: { p: { holding: 0 } } },
      other: { connection: 'good', poll_interval: `${INTERVAL}ms`, points: { p: { holding: 0 } } },
    },
  });
  const client = await bridge.client();
  const lost = await until(
    () => statusOf(client, 'victim'),
    ({ state }) => state === 'lost',
  );
  expect(lost.last_error).toContain('the host name is not known');
  await goodOnes(client, ['other.p']);
  await keepsItsRate(client, () => new Promise(resolve => setTimeout(resolve, 1000)));
  expect((await readSamples(client, ['victim.p']))[0]).toMatchObject({ quality: 'bad', reason: 'no_connection' });
});

test.each([1, -1])('a clock that jumps by %d h makes nothing stale, young or late', async hours => {
  // Less than the jump, and more than a busy machine takes.
  const { client, victim } = await twoDevices({ timeout: '5s' }, { stale_after: '30s' });
  const now = Date.now.bind(Date);
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + hours * 3_600_000);
  onTestFinished(() => clock.mockRestore());
  await keepsItsRate(client, async () => {
    for (let i = 0; i < 20; i++) {
      const samples = await victim();
      expect(isRight(samples)).toBe(true);
      for (const { age_ms } of samples) expect(age_ms).toBeLessThan(30_000);
      await new Promise(resolve => setTimeout(resolve, 25));
    }
  });
});

test('a record that can not be written stops writes, and nothing else', async () => {
  const plc = await startPlc(new MemoryUnit().set('holding', 0, 0));
  plc.keepRequests = 1000;
  const audit = join(temporaryFolder(), 'full.jsonl');
  symlinkSync('/dev/full', audit);
  const bridge = await TestBridge.start(deviceMap(plc.port, { p: { holding: 0, write: {} } }, { safety: { writes: 'enabled', audit } }));
  const client = await bridge.client();
  await goodOnes(client, ['d.p']);
  await keepsItsRate(
    client,
    async () => {
      const outcome = await writePoint(client, 'd.p', 5);
      expect(outcome).toMatchObject({ status: 'refused', rule: 'audit' });
      expect(outcome.reason).toContain('the disk is full');
    },
    'd',
  );
  expect(plc.requests.filter(({ pdu }) => pdu.readUInt8(0) > 4)).toEqual([]);
  expect((await callTool(client, 'get_status')).structured).toMatchObject({
    bridge: { write_trouble: expect.stringContaining('the disk is full') },
  });
});

test('a process without file descriptors goes on with those it has, and takes up the rest when there are some again', async () => {
  const plc = await startPlc(new MemoryUnit().set('holding', 0, 7));
  const file = writeYaml(temporaryFolder(), {
    ...deviceMap(plc.port, { p: { holding: 0 } }),
    bridge: { name: 'few' },
    http: { listen: '127.0.0.1:0', limits: { requests_per_second: 10_000 } },
  });
  const child = spawn('sh', ['-c', 'ulimit -n 128; exec "$@"', 'sh', process.execPath, MAIN, 'run', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  const end = ended(child);
  const endpoint =
    /serving MCP at (http[^"\s]+)/.exec(
      await until(
        () => log,
        text => text.includes('serving MCP at'),
      ),
    )?.[1] ?? '';
  const client = await connectTo(endpoint);
  const isGood = ([sample]: readonly PublicSample[]): boolean => sample?.value === 7 && sample.quality === 'good';
  await until(() => readSamples(client, ['d.p']), isGood);
  const idle = Array.from({ length: 200 }, () =>
    connect({ port: Number(new URL(endpoint).port), host: '127.0.0.1' })
      .on('error', () => undefined)
      .resume(),
  );
  onTestFinished(() => {
    for (const socket of idle) socket.destroy();
  });
  const asked = () => plc.connections;
  // There are not enough for all of them.
  await until(
    () => idle.filter(({ destroyed }) => destroyed).length,
    closed => closed > 50,
  );
  // Its own connection breaks, and there may be no descriptor for a new one.
  for (const socket of (plc as unknown as { sockets: Set<Socket> }).sockets) socket.destroy();
  await new Promise(resolve => setTimeout(resolve, 1000));
  for (const socket of idle) socket.destroy();
  await until(() => readSamples(client, ['d.p']), isGood);
  expect(asked()).toBeGreaterThan(1);
  child.kill('SIGTERM');
  expect((await end).code).toBe(0);
});

test('a flood of clients is slowed down, and the plant is polled as if nothing was', async () => {
  const { client, bridge } = await safePlant({ p: { holding: 0 } }, {}, { http: { limits: { requests_per_second: 50 } } });
  const statuses = new Map<number, number>();
  const flood = async (): Promise<void> => {
    const until = performance.now() + 1500;
    while (performance.now() < until) {
      const { status } = await send(bridge.endpoint, { body: initialize() }).catch(() => ({ status: 0 }));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  // All callers of this machine are one here: the bridge is asked before and after.
  const before = await statusOf(client, 'd');
  const began = performance.now();
  const stolen = stolenTime();
  await Promise.all(Array.from({ length: 20 }, flood));
  // So many a second, and twice as many at once.
  const served = 50 * ((performance.now() - began) / 1000 + 2);
  const after = await until(
    () => statusOf(client, 'd').catch(() => undefined),
    status => status !== undefined,
  );
  expect(statuses.get(429)).toBeGreaterThan(0);
  expect(statuses.get(200) ?? 0).toBeLessThanOrEqual(served + 1);
  expect(statuses.get(0) ?? 0).toBe(0);
  expect((after?.late_cycles ?? 99) - before.late_cycles).toBeLessThanOrEqual(3 + (2 * stolen()) / INTERVAL);
  expect((after?.cycles ?? 0) - before.cycles).toBeGreaterThan(15);
});

test.skipIf(needsSystem('mosquitto'))(
  'a broker that is lost: its points are bad, others keep their rate, and it is taken up again',
  async () => {
    const broker = await Mosquitto.start();
    const other = await startPlc(new MemoryUnit().set('holding', 0, 1));
    const bridge = await TestBridge.start({
      connections: { broker: { type: 'mqtt', url: broker.url, reconnect: { initial: '50ms', max: '200ms' } }, good: wireTo(other.port) },
      devices: {
        victim: { connection: 'broker', points: { p: { topic: 'a/p', type: 'float64' } } },
        other: { connection: 'good', poll_interval: `${INTERVAL}ms`, points: { p: { holding: 0 } } },
      },
    });
    const client = await bridge.client();
    const victim = () => readSamples(client, ['victim.p']);
    const publish = async (value: string) => await (await broker.client()).publishAsync('a/p', value, { retain: true, qos: 1 });
    await publish('7');
    await until(victim, ([sample]) => sample?.value === 7);
    await keepsItsRate(client, async () => {
      broker.kill();
      await until(victim, ([sample]) => sample?.reason === 'no_connection');
    });
    await broker.run();
    await publish('8');
    await until(victim, ([sample]) => sample?.value === 8 && sample.quality === 'good');
  },
);

test('faults that come and go leave no socket, timer or memory behind', async () => {
  const { wire, plc, victim } = await twoDevices();
  const resources = () => process.getActiveResourcesInfo().length;
  const round = async (): Promise<void> => {
    for (const [, fault] of [FAULTS[0], FAULTS[2], FAULTS[8]].flatMap(one => (one === undefined ? [] : [one]))) {
      wire.fault = fault;
      await until(victim, samples => samples.every(({ quality }) => quality === 'bad'), SOON);
      wire.fault = undefined;
      await until(victim, isRight, SOON + 2000);
    }
  };
  await round();
  const before = resources();
  await round();
  await until(
    () => resources() - before,
    more => more <= 5,
  );
  expect([plc.openConnections, wire.openConnections]).toEqual([1, 2]);
});
