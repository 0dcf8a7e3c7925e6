import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { ModbusRtuServer } from '../../simulators/rtu-server.ts';
import { withCrc } from '../../src/drivers/modbus/port.ts';
import type { PublicSample } from '../../src/model/sample.ts';
import { callTool, readSamples, TestBridge, temporaryFolder, until, writePoint } from '../support/bridge.ts';
import { needsSystem } from '../support/system.ts';

const isGood = (samples: readonly PublicSample[]): boolean => samples.length > 0 && samples.every(sample => sample.quality === 'good');

const WAYS = ['converter', 'serial device'] as const;

/** A serial device of this machine that leads to the line. */
async function serialDevice(port: number): Promise<string> {
  const path = join(temporaryFolder(), 'line');
  const cable = spawn('socat', ['-d', '-d', `pty,raw,echo=0,link=${path}`, `tcp:127.0.0.1:${port},nodelay`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void cable.kill('SIGKILL'));
  let output = '';
  cable.stderr.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  await until(
    () => output,
    text => text.includes('starting data transfer'),
  );
  return path;
}

/** A line with units, and the map of a bridge to it: through a converter, or as a serial device. */
async function lay(
  way: (typeof WAYS)[number],
  points: object = { p: { holding: 10 } },
  more: { connection?: object; units?: readonly number[]; device?: object } = {},
) {
  const units = new Map(
    (more.units ?? [1]).map(id => [
      id,
      new MemoryUnit().set('holding', 0, ...Array.from({ length: 40 }, (_, i) => id * 100 + i)).set('coil', 0, 0),
    ]),
  );
  const server = await new ModbusRtuServer(units).start();
  onTestFinished(() => server.stop());
  const reached =
    way === 'serial device'
      ? { type: 'modbus-rtu', path: await serialDevice(server.port), baud_rate: 115200, parity: 'none' }
      : { type: 'modbus-rtu-over-tcp', host: '127.0.0.1', port: server.port };
  const connection = { ...reached, timeout: '200ms', reconnect: { initial: '50ms', max: '200ms' }, ...more.connection };
  const devices = Object.fromEntries(
    [...units.keys()].map(id => [`u${id}`, { connection: 'line', unit_id: id, poll_interval: '60ms', points, ...more.device }]),
  );
  return { units, server, map: { connections: { line: connection }, devices, safety: { writes: 'enabled' } } };
}

async function open(map: object) {
  const client = await (await TestBridge.start(map)).client();
  return {
    client,
    read: (...points: string[]) => readSamples(client, points),
    status: async () =>
      (await callTool(client, 'get_status')).structured as {
        connections: Record<string, number>[];
        devices: { name: string; state: string; cycles: number }[];
      },
  };
}

describe.each(WAYS)('a line behind a %s', way => {
  const skip = way === 'serial device' && needsSystem('socat');
  const line = (...rest: Parameters<typeof lay> extends [unknown, ...infer Rest] ? Rest : never) => lay(way, ...rest);

  test.skipIf(skip)('values are read and written by RTU frames', async () => {
    const { map, units } = await line({
      p: { holding: 10, write: {} },
      f: { holding: 20, type: 'float32', write: {} },
      c: { coil: 0, write: {} },
      b: { holding: 30, type: 'bool', bit: 0, write: {} },
    });
    const { read, client } = await open(map);
    await until(() => read('u1.*'), isGood);
    expect((await read('u1.p'))[0]?.value).toBe(110);
    expect(await writePoint(client, 'u1.p', 7)).toMatchObject({ status: 'written', after: 7, wire: ['0106000a0007'] });
    expect(await writePoint(client, 'u1.f', 1.5)).toMatchObject({ status: 'written' });
    expect(await writePoint(client, 'u1.c', true)).toMatchObject({ status: 'written' });
    expect(await writePoint(client, 'u1.b', true)).toMatchObject({ status: 'written' });
    expect([10, 20, 21, 30].map(address => units.get(1)?.tables.holding.get(address))).toEqual([7, 0x3fc0, 0, 131]);
  });

  describe('without transaction ids', () => {
    test.skipIf(skip)(
      'wire-late: the late reply of a request is drained before the same unit is asked again, and never taken for another',
      async () => {
        const { map, server, units } = await line(
          { p: { holding: 10 }, q: { holding: 30 } },
          { connection: { retries: 0 }, device: { max_gap: 0 } },
        );
        let late = 1;
        server.intercept = ({ unit, pdu, socket }) => {
          if (late-- !== 1) return 'usual';
          // The answer to this question comes when its asker has given up.
          setTimeout(() => socket.write(withCrc(unit, Buffer.from([3, 2, 0xde, 0xad]))), 300);
          expect(pdu.readUInt8(0)).toBe(3);
          return undefined;
        };
        const { read, status } = await open(map);
        await until(() => read('u1.p', 'u1.q'), isGood);
        expect((await read('u1.p', 'u1.q')).map(sample => sample.value)).toEqual([110, 130]);
        expect((await status()).connections[0]?.discarded_replies).toBe(1);
        expect(units.size).toBe(1);
        const before = server.requests[0];
        expect(before?.pdu.length).toBe(5);
      },
    );

    test.skipIf(skip)('the late reply of one unit does not hold up another, and is not taken for its answer', async () => {
      const { map, server } = await line({ p: { holding: 10 } }, { units: [1, 2, 3], connection: { retries: 0, timeout: '100ms' } });
      let late = 1;
      server.intercept = ({ unit, socket }) => {
        if (unit !== 2 || late-- !== 1) return 'usual';
        setTimeout(() => socket.write(withCrc(2, Buffer.from([3, 2, 0xde, 0xad]))), 130);
        return undefined;
      };
      const { read } = await open(map);
      const seen = new Set<unknown>();
      await until(async () => {
        const samples = await read('u1.p', 'u2.p', 'u3.p');
        for (const sample of samples) seen.add(sample.value);
        return samples;
      }, isGood);
      expect([...seen].filter(value => value !== null).sort()).toEqual([110, 210, 310]);
    });

    test.skipIf(skip).each([
      ['wire-unit: a reply of another unit', (unit: number) => withCrc(unit + 1, Buffer.from([3, 2, 0, 9]))],
      ['of another function', (unit: number) => withCrc(unit, Buffer.from([4, 2, 0, 9]))],
      ['wire-short: announces ten bytes', (unit: number) => withCrc(unit, Buffer.from([3, 10, 0, 9, 0, 9]))],
      ['with a wrong CRC', (unit: number) => Buffer.from([unit, 3, 2, 0, 9, 1, 2])],
      ['with a tail', (unit: number) => Buffer.concat([withCrc(unit, Buffer.from([3, 2, 0, 9])), Buffer.from([0])])],
      ['garbage', () => Buffer.from('hello, world')],
    ])('%s gives no value, and what is right afterwards is taken', async (_, reply) => {
      const { map, server } = await line();
      server.intercept = ({ unit }) => reply(unit);
      const { read, status } = await open(map);
      const seen = new Set<unknown>();
      await until(
        async () => {
          for (const sample of await read('u1.p')) seen.add(sample.value);
          return (await status()).connections[0]?.protocol_errors ?? 0;
        },
        errors => errors >= 2,
      );
      expect([...seen]).toEqual([null]);
      server.intercept = undefined;
      expect((await until(() => read('u1.p'), isGood))[0]?.value).toBe(110);
    });

    test.skipIf(skip)('wire-split: a reply byte by byte', async () => {
      const { map, server } = await line();
      server.intercept = ({ unit, socket }) => {
        const bytes = withCrc(unit, Buffer.from([3, 2, 0, 42]));
        for (const [i, byte] of bytes.entries()) setTimeout(() => socket.write(Buffer.from([byte])), i * 8);
        return undefined;
      };
      const { read } = await open(map);
      expect((await until(() => read('u1.p'), isGood))[0]?.value).toBe(42);
    });

    test.skipIf(skip).each([[true], [false]])('an adapter that echoes is understood (echo: %s)', async echo => {
      const { map, server, units } = await line({ p: { holding: 10, write: {} } }, { connection: { echo } });
      server.intercept = ({ unit, pdu, socket }) => {
        socket.write(withCrc(unit, pdu));
        return 'usual';
      };
      const { read, client } = await open(map);
      expect((await until(() => read('u1.p'), isGood))[0]?.value).toBe(110);
      expect(await writePoint(client, 'u1.p', 7)).toMatchObject({ status: 'written' });
      expect(units.get(1)?.tables.holding.get(10)).toBe(7);
    });

    test.skipIf(skip)('wire-write-timeout: no reply to a write is unknown, and it is sent once', async () => {
      const { map, server } = await line({ p: { holding: 10, write: { verify: '300ms' } } });
      server.intercept = ({ pdu }) => (pdu[0] === 6 ? undefined : 'usual');
      const { read, client } = await open(map);
      await until(() => read('u1.p'), isGood);
      expect(await writePoint(client, 'u1.p', 7)).toMatchObject({ status: 'unknown', after: 110 });
      expect(server.requests.filter(({ pdu }) => pdu[0] === 6)).toHaveLength(1);
    });

    test.skipIf(skip)('wire-write-echo: an echo that names another value is unverified', async () => {
      const { map, server } = await line({ p: { holding: 10, write: { verify: '300ms' } } });
      server.intercept = ({ unit, pdu }) => (pdu[0] === 6 ? withCrc(unit, Buffer.from([6, 0, 10, 0, 99])) : 'usual');
      const { read, client } = await open(map);
      await until(() => read('u1.p'), isGood);
      expect(await writePoint(client, 'u1.p', 7)).toMatchObject({
        status: 'unverified',
        reason: expect.stringContaining('confirmed value 99'),
      });
    });

    test.skipIf(skip)('one request at a time, however many units ask', async () => {
      const { map, server } = await line({ p: { holding: 10 } }, { units: [1, 2, 3] });
      let open_ = 0;
      let most = 0;
      server.intercept = ({ unit, pdu, socket }) => {
        most = Math.max(most, ++open_);
        setTimeout(() => {
          open_--;
          socket.write(withCrc(unit, Buffer.from([3, 2, 0, pdu.readUInt8(2)])));
        }, 5);
        return undefined;
      };
      const { read } = await open(map);
      await until(() => read('u1.p', 'u2.p', 'u3.p'), isGood);
      await until(
        () => server.requests.length,
        count => count > 30,
      );
      expect(most).toBe(1);
    });
  });

  test.skipIf(skip)('unit id 0 is a broadcast: it is written without an answer, and nothing can be read from it', async () => {
    const { map, server } = await line({ p: { holding: 10, write: {} } });
    const broadcast = {
      ...map,
      devices: { all: { connection: 'line', unit_id: 0, points: { p: { holding: 10, write: { verify: '100ms' } } } } },
    };
    server.intercept = ({ unit }) => (unit === 0 ? undefined : 'usual');
    const { read, client } = await open(broadcast);
    expect((await read('all.p'))[0]).toMatchObject({ value: null, quality: 'bad', reason: 'not_available' });
    expect(await writePoint(client, 'all.p', 7)).toMatchObject({
      status: 'unverified',
      wire: ['0006000a0007'],
      reason: expect.stringContaining('nobody answers a broadcast'),
    });
    expect(server.requests.map(({ unit, pdu }) => [unit, pdu.toString('hex')])).toEqual([[0, '06000a0007']]);
  });
});
