import { describe, expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import type { PublicSample } from '../../src/model/sample.ts';
import { callTool, deviceMap, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { startPlc } from '../support/plc.ts';
import { frame, type RawRequest, RawServer, registersReply, respond } from '../support/raw-server.ts';

const WRITES = { safety: { writes: 'enabled' } };
const one = { p: { holding: 10 } };

interface Status {
  readonly connections: { discarded_replies: number; connects: number; protocol_errors: number; state: string }[];
  readonly devices: { name: string; state: string; late_cycles: number; cycles: number }[];
}

async function connect(map: object): Promise<{
  bridge: TestBridge;
  read: (...points: string[]) => Promise<PublicSample[]>;
  status: () => Promise<Status>;
  client: Awaited<ReturnType<TestBridge['client']>>;
}> {
  const bridge = await TestBridge.start(map);
  const client = await bridge.client();
  return {
    bridge,
    client,
    read: (...points) => readSamples(client, points.length > 0 ? points : ['d.p']),
    status: async () => (await callTool(client, 'get_status')).structured as unknown as Status,
  };
}

const isGood = (samples: readonly PublicSample[]): boolean => samples.every(sample => sample.quality === 'good');
const address = ({ pdu }: RawRequest): number => pdu.readUInt16BE(1);
const count = ({ pdu }: RawRequest): number => pdu.readUInt16BE(3);

describe('replies that do not fit', () => {
  test('wire-late: a reply after its timeout is dropped by its transaction and counted, and the next value is right', async () => {
    let late: RawRequest | undefined;
    const server = await RawServer.start(request => {
      if (request.number === 1) {
        late = request;
        return;
      }
      if (late !== undefined) {
        // First the late reply, with another value in it, then the right one.
        respond(late, [3, 2, 0xde, 0xad]);
        late = undefined;
      }
      respond(request, [3, 2, 0, 42]);
    });
    const { read, status } = await connect(deviceMap(server.address, one));
    await until(read, isGood);
    await until(status, ({ connections }) => connections[0]?.discarded_replies === 1);
    for (let i = 0; i < 20; i++) expect((await read())[0]?.value).toBe(42);
    expect(server.connections).toBe(1);
  });

  test('wire-tid: a reply with a foreign transaction id is ignored, and the request times out', async () => {
    const server = await RawServer.start(({ transaction, unit, socket }) => void socket.write(frame(transaction + 7, unit, [3, 2, 0, 1])));
    const { read, status } = await connect(deviceMap(server.address, one, { connection: { timeout: '100ms', retries: 0 } }));
    const [sample] = await until(read, ([found]) => found?.reason === 'timeout');
    expect(sample).toMatchObject({ value: null, quality: 'bad' });
    expect((await status()).connections[0]?.discarded_replies).toBeGreaterThan(0);
  });

  test.each([
    ['wire-unit: from another unit', (r: RawRequest) => frame(r.transaction, r.unit + 1, [3, 2, 0, 9])],
    ['wire-short: announces ten bytes, four follow', (r: RawRequest) => frame(r.transaction, r.unit, [3, 10, 0, 9, 0, 9])],
    ['of another function', (r: RawRequest) => frame(r.transaction, r.unit, [4, 2, 0, 9])],
    ['with too few registers', (r: RawRequest) => frame(r.transaction, r.unit, [3, 0])],
    ['with too many registers', (r: RawRequest) => frame(r.transaction, r.unit, [3, 4, 0, 9, 0, 9])],
    ['an exception with a tail', (r: RawRequest) => frame(r.transaction, r.unit, [0x83, 2, 0])],
    ['wire-garbage: bytes that are no header', () => Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ['wire-garbage: a length of 65535', (r: RawRequest) => Buffer.from([r.transaction >> 8, r.transaction & 255, 0, 0, 0xff, 0xff, 1, 3])],
    ['wire-garbage: a length of 0', (r: RawRequest) => Buffer.from([r.transaction >> 8, r.transaction & 255, 0, 0, 0, 0, 1, 3])],
  ])('%s: the connection is dropped and made anew, and no value is taken', async (_, reply) => {
    let wrong = true;
    const server = await RawServer.start(request => {
      if (wrong) request.socket.write(reply(request));
      else respond(request, [3, 2, 0, 42]);
    });
    const { read, status } = await connect(deviceMap(server.address, one));
    const seen = new Set<unknown>();
    await until(
      async () => {
        seen.add((await read())[0]?.value);
        return (await status()).connections[0]?.protocol_errors ?? 0;
      },
      errors => errors >= 2,
    );
    expect([...seen]).toEqual([null]);
    expect((await read())[0]).toMatchObject({ quality: 'bad', reason: 'no_connection' });
    expect(server.connections).toBeGreaterThanOrEqual(2);
    wrong = false;
    expect((await until(read, isGood))[0]?.value).toBe(42);
  });

  test('wire-split: a reply in three segments, and two replies in one', async () => {
    const held: RawRequest[] = [];
    const server = await RawServer.start(request => {
      const bytes = frame(request.transaction, request.unit, registersReply(request));
      if (request.number === 0) {
        const parts = [bytes.subarray(0, 3), bytes.subarray(3, 8), bytes.subarray(8)];
        for (const [i, part] of parts.entries()) setTimeout(() => request.socket.write(part), i * 20);
        return;
      }
      held.push(request);
      if (held.length < 2) return;
      const [a, b] = held.splice(0) as [RawRequest, RawRequest];
      request.socket.write(
        Buffer.concat([frame(b.transaction, b.unit, registersReply(b)), frame(a.transaction, a.unit, registersReply(a))]),
      );
    });
    const points = { p: { holding: 10, poll_interval: '1h' }, q: { holding: 500 }, r: { holding: 900 } };
    // The first request alone, then two at once, whose replies come in one segment and in the other order.
    const map = deviceMap(server.address, points, { connection: { max_in_flight: 2 }, device: { max_gap: 0 } });
    const { read } = await connect(map);
    const values = async () => (await read('d.p', 'd.q', 'd.r')).map(sample => sample.value);
    await until(values, all => all[1] === 500 && all[2] === 900);
  });
});

describe('devices that say no', () => {
  test('wire-gap: a block across an unused register is bisected in the same cycle, and the hole is not asked for again', async () => {
    const unit = new MemoryUnit().set('holding', 0, 1, 2, 3).set('holding', 5, 6, 7);
    const plc = await startPlc(unit);
    plc.keepRequests = 200;
    const points = { a: { holding: 0 }, b: { holding: 1 }, c: { holding: 2 }, e: { holding: 5 }, f: { holding: 6 } };
    const { read, status } = await connect(deviceMap(plc.port, points));
    await until(status, ({ devices }) => (devices[0]?.cycles ?? 0) >= 1);
    expect((await read('d.*')).map(sample => sample.value)).toEqual([1, 2, 3, 6, 7]);
    const asked = plc.requests.length;
    await until(
      () => plc.requests.length - asked,
      more => more >= 4,
    );
    const later = plc.requests.slice(asked).map(({ pdu }) => [pdu.readUInt16BE(1), pdu.readUInt16BE(3)]);
    for (const request of later)
      expect([
        [0, 3],
        [5, 2],
      ]).toContainEqual(request);
  });

  test('a device that answers exception 3 to a long but legal read: its limit is found, and kept', async () => {
    const server = await RawServer.start(request => respond(request, count(request) > 60 ? [0x83, 3] : undefined));
    const points = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`p${i}`, { holding: i }]));
    const { read, status } = await connect(deviceMap(server.address, points));
    await until(status, ({ devices }) => (devices[0]?.cycles ?? 0) >= 1);
    expect((await read('d.*')).every(sample => sample.quality === 'good')).toBe(true);
    const asked = server.requests.length;
    await until(
      () => server.requests.length - asked,
      more => more >= 4,
    );
    const later = server.requests.slice(asked);
    for (const request of later) expect(count(request)).toBeLessThanOrEqual(60);
  });

  test('a point that alone gives an exception is bad with it, and its neighbours live', async () => {
    const unit = new MemoryUnit().set('holding', 0, 1).set('holding', 2, 3);
    const plc = await startPlc(unit);
    const { read } = await connect(deviceMap(plc.port, { a: { holding: 0 }, b: { holding: 1 }, c: { holding: 2 } }));
    const [a, b, c] = await until(
      () => read('d.a', 'd.b', 'd.c'),
      samples => samples.every(sample => sample.reason !== 'initialising'),
    );
    expect(b).toMatchObject({ quality: 'bad', reason: 'exception', exception: { code: 2, name: 'illegal data address' } });
    expect([a?.value, c?.value]).toEqual([1, 3]);
  });

  test('wire-busy: exception 6 twice, then an answer: retried within the cycle, and good', async () => {
    let busy = 2;
    const server = await RawServer.start(request => respond(request, busy-- > 0 ? [0x83, 6] : [3, 2, 0, 42]));
    const { read, status } = await connect(deviceMap(server.address, one));
    await until(read, ([sample]) => sample?.reason !== 'initialising');
    expect((await read())[0]).toMatchObject({ value: 42, quality: 'good' });
    expect((await status()).devices[0]?.state).toBe('polling');
  });

  test('wire-0b: a gateway that can not reach one unit of three: that one is bad with the exception, the others keep their rate', async () => {
    const server = await RawServer.start(request => respond(request, request.unit === 2 ? [0x83, 0x0b] : registersReply(request)));
    const device = (unit_id: number) => ({ connection: 'plc', unit_id, poll_interval: '40ms', points: { p: { holding: 10 } } });
    const map = { ...deviceMap(server.address, {}), devices: { a: device(1), b: device(2), c: device(3) } };
    const { read, status } = await connect(map);
    await until(
      () => read('a.p', 'b.p', 'c.p'),
      samples => samples.every(sample => sample.reason !== 'initialising'),
    );
    const [a, b, c] = await read('a.p', 'b.p', 'c.p');
    expect(b).toMatchObject({
      quality: 'bad',
      reason: 'exception',
      exception: { code: 11, name: 'gateway target device failed to respond' },
    });
    expect([a?.value, c?.value]).toEqual([10, 10]);
    const before = await status();
    await new Promise(resolve => setTimeout(resolve, 400));
    const after = await status();
    const cycles = (name: string): number =>
      (after.devices.find(d => d.name === name)?.cycles ?? 0) - (before.devices.find(d => d.name === name)?.cycles ?? 0);
    expect(cycles('a')).toBeGreaterThanOrEqual(8);
    expect(cycles('c')).toBeGreaterThanOrEqual(8);
    expect(server.connections).toBe(1);
  });

  test.each([
    [4, 'server device failure', 'polling'],
    [8, 'memory parity error', 'polling'],
    [0x0a, 'gateway path unavailable', 'lost'],
  ])('exception %d is told as %s, and the device is %s', async (code, name, state) => {
    const server = await RawServer.start(request => respond(request, [0x83, code]));
    const { read, status } = await connect(deviceMap(server.address, one));
    const [sample] = await until(read, ([found]) => found?.reason !== 'initialising');
    expect(sample).toMatchObject({ value: null, quality: 'bad', reason: 'exception', exception: { code, name } });
    expect((await status()).devices[0]?.state).toBe(state);
    expect(server.connections).toBe(1);
  });

  test('exception 5 to a write: accepted, and reading back tells how it ended', async () => {
    let value = 10;
    const server = await RawServer.start(request => {
      if (request.pdu[0] !== 6)
        return respond(
          request,
          registersReply(request, () => value),
        );
      const wanted = request.pdu.readUInt16BE(3);
      setTimeout(() => {
        value = wanted;
      }, 120);
      return respond(request, [0x86, 5]);
    });
    const { client, read } = await connect(deviceMap(server.address, { p: { holding: 10, write: { verify: '1s' } } }, WRITES));
    await until(read, isGood);
    expect(await writePoint(client, 'd.p', 7)).toMatchObject({ status: 'written', after: 7 });
    expect(server.requests.filter(request => request.pdu[0] === 6)).toHaveLength(1);
  });

  test('unit ids 0 and 255 go over the wire as they stand', async () => {
    const server = await RawServer.start(request => respond(request));
    const map = {
      ...deviceMap(server.address, {}),
      devices: { a: { connection: 'plc', unit_id: 0, points: one }, b: { connection: 'plc', unit_id: 255, points: one } },
    };
    const { read } = await connect(map);
    await until(() => read('a.p', 'b.p'), isGood);
    expect(new Set(server.requests.map(request => request.unit))).toEqual(new Set([0, 255]));
  });
});

describe('peers that go away', () => {
  test('wire-restart: closed and refused, all points turn bad within one timeout; back, they are good again by themselves', async () => {
    const server = await RawServer.start(request => respond(request));
    const points = { p: { holding: 10 }, q: { holding: 11, poll_interval: '1h' } };
    const { read } = await connect(deviceMap(server.address, points));
    await until(() => read('d.*'), isGood);
    const lost = performance.now();
    await server.close();
    const gone = await until(
      () => read('d.*'),
      samples => samples.every(sample => sample.quality === 'bad'),
    );
    expect(performance.now() - lost).toBeLessThan(300);
    expect(gone.map(sample => sample.reason)).toEqual(['no_connection', 'no_connection']);
    expect(gone[0]).toMatchObject({ value: null, last_good: { value: 10 } });
    await new Promise(resolve => setTimeout(resolve, 500));
    await server.listen();
    await until(() => read('d.*'), isGood, 2000);
  });

  test('wire-half-open: a peer that vanishes without a word is found by timeouts, and gets a new socket', async () => {
    let silent = false;
    const server = await RawServer.start(request => {
      if (!silent) respond(request);
    });
    const { read } = await connect(deviceMap(server.address, one, { connection: { timeout: '100ms' } }));
    await until(read, isGood);
    silent = true;
    expect((await until(read, ([sample]) => sample?.quality === 'bad'))[0]?.reason).toMatch(/timeout|no_connection/);
    await until(
      () => server.connections,
      connections => connections >= 2,
    );
    silent = false;
    await until(read, isGood);
    expect(server.open).toBe(1);
  });

  test('wire-single-client: never more than one socket to a host and port, through failures and reconnects', async () => {
    let most = 0;
    const server = await RawServer.start(request => {
      most = Math.max(most, server.open);
      if (request.number % 7 === 3) request.socket.destroy();
      else if (request.number % 7 !== 5) respond(request);
    });
    const device = (unit_id: number) => ({ connection: 'plc', unit_id, poll_interval: '20ms', points: one });
    const map = {
      ...deviceMap(server.address, {}, { connection: { timeout: '50ms', max_in_flight: 3 } }),
      devices: { a: device(1), b: device(2), c: device(3) },
    };
    await connect(map);
    await until(
      () => server.connections,
      connections => connections >= 6,
    );
    expect(most).toBe(1);
  });

  test('wire-dead: one unit of ten behind a gateway never answers: the others lose under a tenth of their rate', async () => {
    const server = await RawServer.start(request => {
      if (request.unit !== 5) respond(request);
    });
    const devices = Object.fromEntries(
      Array.from({ length: 10 }, (_, i) => [`u${i + 1}`, { connection: 'plc', unit_id: i + 1, poll_interval: '100ms', points: one }]),
    );
    const { status } = await connect({ ...deviceMap(server.address, {}, { connection: { timeout: '100ms' } }), devices });
    await until(status, now => now.devices[4]?.state === 'lost' && now.devices.every((device, i) => i === 4 || device.cycles > 0));
    // The first probes follow each other quickly; what is measured is the steady state.
    await new Promise(resolve => setTimeout(resolve, 1500));
    const before = await status();
    const started = performance.now();
    await new Promise(resolve => setTimeout(resolve, 2000));
    const after = await status();
    const expected = (performance.now() - started) / 100;
    for (const [i, device] of after.devices.entries())
      if (i !== 4) expect(device.cycles - (before.devices[i]?.cycles ?? 0)).toBeGreaterThan(expected * 0.9 - 1);
    expect(after.devices[4]?.cycles).toBe(0);
    expect(after.connections[0]?.connects).toBe(1);
  });
});

describe('writes on the wire', () => {
  const target = { p: { holding: 10, write: { verify: '200ms' } } };

  test('wire-fc16-only: a device without FC06 is written by FC16, and the bridge remembers', async () => {
    const unit = new MemoryUnit().set('holding', 10, 0);
    unit.unknownFunctions = new Set([6]);
    const plc = await startPlc(unit);
    plc.keepRequests = 1000;
    const { client, read } = await connect(deviceMap(plc.port, target, WRITES));
    await until(read, isGood);
    expect(await writePoint(client, 'd.p', 7)).toMatchObject({ status: 'written', after: 7 });
    expect(await writePoint(client, 'd.p', 8)).toMatchObject({ status: 'written', after: 8 });
    const codes = plc.requests.map(({ pdu }) => pdu.readUInt8(0)).filter(code => code !== 3);
    expect(codes).toEqual([6, 16, 16]);
  });

  test('function: multiple never tries FC06, and single never FC16', async () => {
    const unit = new MemoryUnit().set('holding', 0, 0, 0).set('coil', 0, 0);
    unit.unknownFunctions = new Set([16]);
    const plc = await startPlc(unit);
    plc.keepRequests = 1000;
    const points = {
      m: { holding: 0, write: { function: 'multiple' } },
      s: { holding: 1, write: { function: 'single' } },
      c: { coil: 0, write: { function: 'multiple' } },
    };
    const { client, read } = await connect(deviceMap(plc.port, points, WRITES));
    await until(() => read('d.*'), isGood);
    expect(await writePoint(client, 'd.m', 7)).toMatchObject({
      status: 'failed',
      reason: expect.stringContaining('exception 1 (illegal function)'),
    });
    expect(await writePoint(client, 'd.s', 7)).toMatchObject({ status: 'written' });
    expect(await writePoint(client, 'd.c', true)).toMatchObject({ status: 'written' });
    expect(plc.requests.map(({ pdu }) => pdu.readUInt8(0)).filter(code => code > 4)).toEqual([16, 6, 15]);
  });

  test('one bit is written by FC22, and without it by reading and writing in one slot; the other bits stay', async () => {
    for (const unknown of [[], [22], [22, 6]]) {
      const unit = new MemoryUnit().set('holding', 0, 0xa5f0);
      unit.unknownFunctions = new Set(unknown);
      const plc = await startPlc(unit);
      plc.keepRequests = 1000;
      const { client, read } = await connect(deviceMap(plc.port, { b: { holding: 0, bit: 2, type: 'bool', write: {} } }, WRITES));
      await until(() => read('d.b'), isGood);
      expect(await writePoint(client, 'd.b', true)).toMatchObject({ status: 'written', before: false, after: true });
      expect(unit.tables.holding.get(0)).toBe(0xa5f4);
      expect(plc.requests.map(({ pdu }) => pdu.readUInt8(0)).filter(code => code > 4)).toEqual([22, 6, 16].slice(0, unknown.length + 1));
    }
  });

  test('wire-write-echo: the echo names another value: unverified, and said so', async () => {
    const server = await RawServer.start(request => respond(request, request.pdu[0] === 6 ? [6, 0, 10, 0, 99] : undefined));
    const { client, read } = await connect(deviceMap(server.address, target, WRITES));
    await until(read, isGood);
    const outcome = await writePoint(client, 'd.p', 7);
    expect(outcome.status).toBe('unverified');
    expect(outcome.reason).toContain('the device confirmed value 99 where 7 was sent');
  });

  test('acknowledged, but reading back shows the old value: unverified', async () => {
    const server = await RawServer.start(request => respond(request, request.pdu[0] === 6 ? request.pdu : undefined));
    const { client, read } = await connect(deviceMap(server.address, target, WRITES));
    await until(read, isGood);
    const outcome = await writePoint(client, 'd.p', 7);
    expect(outcome).toMatchObject({ status: 'unverified', before: 10, after: 10 });
    expect(outcome.reason).toContain('after 200 ms the reading back shows 10');
  });

  test('wire-write-timeout: no reply: unknown, sent once, the connection is reset, and reading back tells what is', async () => {
    let value = 10;
    const server = await RawServer.start(request => {
      if (request.pdu[0] === 6) value = request.pdu.readUInt16BE(3);
      else
        respond(
          request,
          registersReply(request, () => value),
        );
    });
    const { client, read } = await connect(deviceMap(server.address, target, WRITES));
    await until(read, isGood);
    const outcome = await writePoint(client, 'd.p', 7);
    expect(outcome).toMatchObject({ status: 'unknown', before: 10, after: 7 });
    expect(outcome.reason).toContain('may have acted');
    expect(server.requests.filter(request => request.pdu[0] === 6)).toHaveLength(1);
    expect(server.connections).toBe(2);
  });

  test('a value of several registers is one request', async () => {
    const unit = new MemoryUnit().set('holding', 0, 0, 0, 0, 0);
    const plc = await startPlc(unit);
    plc.keepRequests = 1000;
    const { client, read } = await connect(deviceMap(plc.port, { f: { holding: 0, type: 'float64', write: {} } }, WRITES));
    await until(() => read('d.f'), isGood);
    expect(await writePoint(client, 'd.f', 1.5)).toMatchObject({ status: 'written' });
    expect(plc.requests.filter(({ pdu }) => pdu.readUInt8(0) > 4)).toHaveLength(1);
  });

  test('a write whose scale another point holds', async () => {
    const unit = new MemoryUnit().set('holding', 0, 100, 0xffff);
    const plc = await startPlc(unit);
    const points = { limit: { holding: 0, type: 'int16', scale_from: 'sf', unit: '%', write: {} }, sf: { holding: 1, type: 'int16' } };
    const { client, read } = await connect(deviceMap(plc.port, points, WRITES));
    await until(() => read('d.*'), isGood);
    expect(await writePoint(client, 'd.limit', 55.5)).toMatchObject({ status: 'written', before: 10, after: 55.5 });
    expect(unit.tables.holding.get(0)).toBe(555);
    expect(await writePoint(client, 'd.limit', 55.55)).toMatchObject({
      status: 'refused',
      reason: expect.stringContaining('nearest 55.5 and 55.6'),
    });
    unit.set('holding', 1, 0x7fff);
    expect(await writePoint(client, 'd.limit', 50)).toMatchObject({ status: 'refused' });
    expect(unit.tables.holding.get(0)).toBe(555);
  });
});

describe('requests are few', () => {
  test('neighbours share a request, up to the limit of the device, and no value is split', async () => {
    const unit = new MemoryUnit().set('input', 0, ...Array.from({ length: 60 }, (_, i) => i));
    const plc = await startPlc(unit);
    plc.keepRequests = 100;
    const points = Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`f${i}`, { input: i * 4 + 1, type: 'uint64' }]).slice(0, 14));
    const { status } = await connect(deviceMap(plc.port, points, { device: { max_registers_per_read: 10 } }));
    await until(status, ({ devices }) => (devices[0]?.cycles ?? 0) >= 1);
    const first = plc.requests.slice(0, 7).map(({ pdu }) => [pdu.readUInt16BE(1), pdu.readUInt16BE(3)]);
    expect(first).toEqual(Array.from({ length: 7 }, (_, i) => [i * 8 + 1, 8]));
  });

  test('max_gap 0 and unreadable ranges are never spanned', async () => {
    const unit = new MemoryUnit().set('holding', 0, ...Array.from({ length: 100 }, (_, i) => i));
    const plc = await startPlc(unit);
    plc.keepRequests = 100;
    const points = { a: { holding: 0 }, b: { holding: 2 }, c: { holding: 30 }, e: { holding: 40 } };
    await connect(deviceMap(plc.port, points, { device: { unreadable: ['holding:31-39'] } }));
    await until(
      () => plc.requests.length,
      n => n >= 4,
    );
    expect(plc.requests.slice(0, 2).map(({ pdu }) => [pdu.readUInt16BE(1), pdu.readUInt16BE(3)])).toEqual([
      [0, 31],
      [40, 1],
    ]);
    const strict = await startPlc(unit);
    strict.keepRequests = 100;
    await connect(deviceMap(strict.port, points, { device: { max_gap: 0 } }));
    await until(
      () => strict.requests.length,
      n => n >= 4,
    );
    expect(strict.requests.slice(0, 4).map(({ pdu }) => pdu.readUInt16BE(3))).toEqual([1, 1, 1, 1]);
  });

  test('request_delay keeps silence between requests, idle_close gives the seat back', async () => {
    const unit = new MemoryUnit().set('holding', 0, 1).set('holding', 300, 2);
    const plc = await startPlc(unit);
    const times: number[] = [];
    const raw = await RawServer.start(request => {
      times.push(performance.now());
      respond(request);
    });
    await connect(
      deviceMap(raw.address, { a: { holding: 0 }, b: { holding: 300 }, c: { holding: 600 } }, { connection: { request_delay: '40ms' } }),
    );
    await until(
      () => times.length,
      n => n >= 6,
    );
    for (let i = 1; i < times.length; i++) expect((times[i] ?? 0) - (times[i - 1] ?? 0)).toBeGreaterThan(38);

    const { read, status } = await connect(
      deviceMap(plc.port, { a: { holding: 0 } }, { connection: { idle_close: '100ms' }, device: { poll_interval: '600ms' } }),
    );
    await until(() => read('d.a'), isGood);
    await until(
      () => plc.openConnections,
      n => n === 0,
      1000,
    );
    expect((await status()).connections[0]?.state).toBe('idle');
    expect((await read('d.a'))[0]?.quality).toBe('good');
    await until(
      () => plc.connections,
      n => n >= 2,
      2000,
    );
  });

  test('connect_delay keeps silence after connecting', async () => {
    let connectedAt = 0;
    let askedAt = 0;
    const server = await RawServer.start(request => {
      askedAt ||= performance.now();
      respond(request);
    });
    const started = performance.now();
    const { read } = await connect(deviceMap(server.address, one, { connection: { connect_delay: '250ms' } }));
    connectedAt ||= started;
    await until(read, isGood);
    expect(askedAt - connectedAt).toBeGreaterThanOrEqual(249);
  });

  test('one-based addressing counts from one', async () => {
    const unit = new MemoryUnit().set('holding', 0, 11, 12);
    const plc = await startPlc(unit);
    const { read } = await connect(
      deviceMap(plc.port, { a: { holding: 1 }, b: { register: 40002 } }, { device: { addressing: 'one_based' } }),
    );
    expect((await until(() => read('d.a', 'd.b'), isGood)).map(sample => sample.value)).toEqual([11, 12]);
  });
});

test('address and count of a request are those of the map', async () => {
  const server = await RawServer.start(request => respond(request));
  const { read } = await connect(deviceMap(server.address, { p: { holding: 0x64, type: 'uint32' } }));
  await until(() => read('d.p'), isGood);
  expect([address(server.requests[0] as RawRequest), count(server.requests[0] as RawRequest)]).toEqual([100, 2]);
});
