import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Codec } from '../../../src/drivers/modbus/codec.ts';
import type { ConnectionListener, ModbusConnection } from '../../../src/drivers/modbus/connection.ts';
import type { ModbusPoint } from '../../../src/drivers/modbus/point.ts';
import { DevicePoller } from '../../../src/drivers/modbus/poller.ts';
import type { DeviceReader } from '../../../src/drivers/modbus/reader.ts';
import { TransportError } from '../../../src/model/errors.ts';
import { good, type Sample, sampleOf } from '../../../src/model/sample.ts';

const LOG = { debug: () => undefined, info: () => undefined, warn: () => undefined };

const point = (id: string, pollInterval: number): ModbusPoint => ({
  name: `d.${id}`,
  device: 'd',
  id,
  uri: `plant://d/${id}`,
  type: 'uint16',
  value: { kind: 'number', integer: true },
  deadband: { absolute: 0 },
  pollInterval,
  staleAfter: 3 * pollInterval,
  hidden: false,
  table: 'holding',
  address: 0,
  registers: 1,
  codec: new Codec({
    type: 'uint16',
    order: 'ABCD',
    registers: 1,
    byte: 'low',
    encoding: 'ascii',
    scale: 1,
    offset: 0,
    scaled: false,
    invalid: [],
  }),
  writeFunction: 'auto',
});

/** What is being read is read to its end, which takes time. */
async function stop(poller: DevicePoller): Promise<void> {
  const stopped = poller.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  await stopped;
}

/** A poller whose reader takes as long as the test says, and answers or does not. */
function setUp(points: readonly ModbusPoint[]) {
  const asked: { at: number; points: string[] }[] = [];
  const samples: Sample[] = [];
  const device = { takes: 1, answers: true };
  let listener: ConnectionListener | undefined;
  const bus = { lastEnd: 0 };
  const connection = {
    listen: (one: ConnectionListener) => {
      listener = one;
      return () => undefined;
    },
    bus,
    patience: 1000,
  } as unknown as ModbusConnection;
  const reader = {
    read: async (due: readonly ModbusPoint[]) => {
      asked.push({ at: Math.round(performance.now()), points: due.map(one => one.id) });
      await new Promise(resolve => setTimeout(resolve, device.takes));
      if (!device.answers) throw new TransportError('timeout', 'no reply');
      return due.map(one => sampleOf(one, good(1)));
    },
    summary: () => ({ requests: 1, registers: 1, unused: 0 }),
  } as unknown as DeviceReader;
  const poller = new DevicePoller('d', connection, 'plc', points, reader, LOG, 0);
  poller.start(some => samples.push(...some));
  return {
    asked,
    samples,
    device,
    poller,
    bus,
    connected: (ours = false) => listener?.connected(ours),
    lost: () => listener?.lost(new Error('gone')),
  };
}

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});
afterEach(() => {
  vi.useRealTimers();
});

test('points are read when they are due, those of other intervals together with them', async () => {
  const { asked, connected, poller } = setUp([point('a', 100), point('b', 300)]);
  await vi.advanceTimersByTimeAsync(50);
  expect(asked).toEqual([]);
  connected();
  await vi.advanceTimersByTimeAsync(650);
  expect(asked.map(one => one.points.join(''))).toEqual(['ab', 'a', 'a', 'ab', 'a', 'a', 'ab']);
  expect(poller.status().late_cycles).toBe(0);
  await stop(poller);
});

test('a device that is too slow: late cycles are counted and skipped, never piled up', async () => {
  const { asked, connected, device, poller } = setUp([point('a', 100)]);
  connected();
  device.takes = 350;
  await vi.advanceTimersByTimeAsync(3_500);
  const gaps = asked.slice(1).map((one, i) => one.at - (asked[i]?.at ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(350);
  const { cycles, late_cycles } = poller.status();
  expect(cycles + late_cycles).toBeGreaterThanOrEqual(30);
  device.takes = 1;
  await vi.advanceTimersByTimeAsync(500);
  const settled = poller.status().late_cycles;
  await vi.advanceTimersByTimeAsync(2000);
  expect(poller.status().late_cycles).toBe(settled);
  const stopping = poller.stop();
  await vi.advanceTimersByTimeAsync(1000);
  await stopping;
});

test('a poller that hangs shows it; one that sleeps, waits for its connection, or whose wire goes on does not', async () => {
  const { poller, device, bus, connected } = setUp([point('a', 1000)]);
  await vi.advanceTimersByTimeAsync(5000);
  expect(poller.stalledFor(performance.now())).toBe(0);
  connected();
  await vi.advanceTimersByTimeAsync(10_400);
  expect(poller.stalledFor(performance.now())).toBe(0);
  device.takes = 60_000;
  await vi.advanceTimersByTimeAsync(20_600);
  expect(poller.stalledFor(performance.now())).toBeCloseTo(19_000, -3);
  // A slow device of the same wire has its turn, and its requests end.
  bus.lastEnd = performance.now();
  expect(poller.stalledFor(performance.now())).toBe(0);
  device.takes = 1;
  await stop(poller);
});

describe('a device that is lost', () => {
  test('turns all its points bad at once, is probed with one point at growing pauses, and is read whole when it is back', async () => {
    const { asked, connected, device, poller, samples } = setUp([point('a', 100), point('b', 3_600_000)]);
    connected();
    await vi.advanceTimersByTimeAsync(250);
    device.answers = false;
    samples.length = 0;
    await vi.advanceTimersByTimeAsync(100);
    expect(samples.map(sample => [sample.point.id, sample.quality, sample.reason])).toEqual([
      ['a', 'bad', 'timeout'],
      ['b', 'bad', 'timeout'],
    ]);
    asked.length = 0;
    await vi.advanceTimersByTimeAsync(120_000);
    expect(new Set(asked.map(one => one.points.join('')))).toEqual(new Set(['a']));
    const gaps = asked.slice(1).map((one, i) => one.at - (asked[i]?.at ?? 0));
    expect(Math.max(...gaps)).toBeLessThanOrEqual(30_100);
    expect(asked.length).toBeLessThan(14);
    device.answers = true;
    asked.length = 0;
    await vi.advanceTimersByTimeAsync(31_000);
    expect(asked[1]?.points).toEqual(['a', 'b']);
    expect(poller.status().state).toBe('polling');
    await stop(poller);
  });

  test('with its connection: bad at once, and read again as soon as the connection is back', async () => {
    const { asked, connected, lost, poller, samples } = setUp([point('a', 10_000)]);
    connected();
    await vi.advanceTimersByTimeAsync(50);
    lost();
    expect(samples.at(-1)).toMatchObject({ quality: 'bad', reason: 'no_connection', value: null });
    asked.length = 0;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toEqual([]);
    connected();
    await vi.advanceTimersByTimeAsync(20);
    expect(samples.at(-1)).toMatchObject({ quality: 'good' });
    await stop(poller);
  });

  test('that comes and goes for a day leaves no timer behind', async () => {
    const { connected, lost, device, poller } = setUp([point('a', 1000)]);
    for (let hour = 0; hour < 24; hour++) {
      connected(hour % 3 === 0);
      device.answers = hour % 2 === 0;
      await vi.advanceTimersByTimeAsync(1_800_000);
      lost();
      await vi.advanceTimersByTimeAsync(1_800_000);
    }
    await stop(poller);
    expect(vi.getTimerCount()).toBe(0);
  });
});
