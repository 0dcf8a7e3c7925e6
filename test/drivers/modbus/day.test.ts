import type { Socket } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { answer, MemoryUnit } from '../../../simulators/modbus-server.ts';
import { ModbusConnection } from '../../../src/drivers/modbus/connection.ts';
import { modbusProtocol } from '../../../src/drivers/modbus/map.ts';
import { mbapFrame } from '../../../src/drivers/modbus/mbap.ts';
import { TCP_COST } from '../../../src/drivers/modbus/planner.ts';
import type { ModbusPoint } from '../../../src/drivers/modbus/point.ts';
import { DevicePoller } from '../../../src/drivers/modbus/poller.ts';
import { DeviceReader } from '../../../src/drivers/modbus/reader.ts';
import { TcpPort } from '../../../src/drivers/modbus/tcp-port.ts';
import type { Sample } from '../../../src/model/sample.ts';
import { FakeSocket } from '../../support/fake-socket.ts';

const LOG = { debug: () => undefined, info: () => undefined, warn: () => undefined };
const HOUR = 3_600_000;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Points as the map makes them. */
function pointsOf(name: string): readonly ModbusPoint[] {
  const raw = {
    poll_interval: '10s',
    points: { a: { holding: 0 }, b: { holding: 1 }, far: { holding: 50, poll_interval: '1m' }, none: { holding: 90 } },
  };
  return modbusProtocol.compile({
    name,
    raw,
    connection: {},
    path: [],
    report: (_, message) => expect.fail(message),
    warn: () => undefined,
  }) as readonly ModbusPoint[];
}

test('24 hours with devices that come and go leave no timer, listener or transaction behind', async () => {
  const unit = new MemoryUnit().set('holding', 0, 1, 2).set('holding', 50, 3);
  const sockets: FakeSocket[] = [];
  const ports: TcpPort[] = [];
  // What goes wrong depends on the hour: nobody listens, one unit is silent, one answers late, or nothing does.
  const hour = (): number => Math.floor(performance.now() / HOUR) % 4;
  const dial = (): Socket => {
    const socket = new FakeSocket();
    sockets.push(socket);
    setTimeout(() => {
      if (hour() === 3) socket.destroy(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }));
      else socket.open();
    }, 1);
    socket.onWrite = request => {
      const id = request.readUInt8(6);
      if (hour() === 3) {
        socket.destroy();
        return;
      }
      if (hour() === 1 && id === 2) return;
      const delay = hour() === 2 && id === 1 ? 1500 : 2;
      const reply = mbapFrame(request.readUInt16BE(0), id, answer(unit, request.subarray(7)));
      setTimeout(() => socket.readyState === 'open' && socket.emit('data', reply), delay);
    };
    return socket as unknown as Socket;
  };
  const newPort = (): TcpPort => {
    const port = new TcpPort(dial, 'connect', 1000);
    ports.push(port);
    return port;
  };
  const connection = new ModbusConnection(
    {
      name: 'c',
      type: 'modbus-tcp',
      peer: 'peer',
      newPort,
      cost: TCP_COST,
      timeout: 1000,
      maxInFlight: 1,
      requestDelay: 0,
      connectDelay: 0,
      idleClose: undefined,
      reconnect: { initial: 500, max: 30_000 },
    },
    LOG,
  );
  connection.serve(2);
  const newest = new Map<string, Sample>();
  const pollers = [1, 2].map(id => {
    const points = pointsOf(`u${id}`);
    const settings = {
      name: `u${id}`,
      unit: id,
      broadcast: false,
      retries: 1,
      maxRegisters: 125,
      maxBits: 2000,
      maxGap: undefined,
      unreadable: [],
    };
    return new DevicePoller(`u${id}`, connection, 'c', points, new DeviceReader(settings, connection), LOG, 0);
  });
  const sink = (samples: readonly Sample[]): void => {
    for (const sample of samples) newest.set(sample.point.name, sample);
  };
  for (const poller of pollers) poller.start(sink);
  connection.start();
  for (let i = 0; i < 24; i++) {
    // Half an hour after things changed, what is shown is what is.
    await vi.advanceTimersByTimeAsync(HOUR / 2);
    const quality = (name: string) => newest.get(name)?.quality;
    expect([quality('u1.a'), quality('u2.a')]).toEqual(
      [
        ['good', 'good'],
        ['good', 'bad'],
        ['bad', 'good'],
        ['bad', 'bad'],
      ][hour()],
    );
    await vi.advanceTimersByTimeAsync(HOUR / 2);
  }
  const pending = ports.map(port => (port as unknown as { pending: Map<number, unknown> }).pending.size);
  expect(pending.every(size => size <= 1)).toBe(true);
  const stopping = Promise.all([connection.stop(), ...pollers.map(poller => poller.stop())]);
  await vi.advanceTimersByTimeAsync(5000);
  await stopping;
  expect(vi.getTimerCount()).toBe(0);
  expect(sockets.filter(socket => socket.readyState !== 'closed')).toEqual([]);
  const { client, listeners } = connection as unknown as { client: unknown; listeners: Set<unknown> };
  expect([client, listeners.size]).toEqual([undefined, 0]);
  for (const socket of sockets)
    for (const event of ['data', 'close', 'error', 'connect']) expect(socket.listenerCount(event)).toBeLessThanOrEqual(2);
  expect(connection.status().requests).toBeGreaterThan(10_000);
});
