import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { callTool, deviceMap, goodOnes, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { startPlc } from '../support/plc.ts';
import { EventReader, initialize, modern, open, openSession, rpc, send } from '../support/raw-http.ts';
import { safePlant } from '../support/safe-plant.ts';
import { needsSystem } from '../support/system.ts';

const WRITES = { safety: { writes: 'enabled' } };

async function twoPlcs() {
  const zeros = Array.from({ length: 20 }, (_, i) => i);
  const plcs = [
    await startPlc(new MemoryUnit().set('holding', 0, ...zeros)),
    await startPlc(new MemoryUnit().set('holding', 0, ...zeros)),
  ] as const;
  const connection = (i: 0 | 1) => ({
    type: 'modbus-tcp',
    host: '127.0.0.1',
    port: plcs[i].port,
    reconnect: { initial: '50ms', max: '200ms' },
  });
  const device = (i: 0 | 1, points: object) => ({ connection: i === 0 ? 'one' : 'two', poll_interval: '50ms', points });
  const map = (first: object, second: object, more: object = {}) => ({
    connections: { one: connection(0), two: connection(1) },
    devices: { a: device(0, first), b: device(1, second) },
    ...more,
  });
  return { plcs, map };
}

describe('another map', () => {
  test('changed points are exchanged on the connection that is there; the rest, with its values, goes on', async () => {
    const { plcs, map } = await twoPlcs();
    const bridge = await TestBridge.start(map({ p: { holding: 3 }, q: { holding: 4 } }, { r: { holding: 5, poll_interval: '1h' } }));
    const client = await bridge.client('2025-11-25');
    const [, , before] = await goodOnes(client, ['a.p', 'a.q', 'b.r']);
    await bridge.reload(map({ p: { holding: 3, scale: 0.1, unit: '°C' }, s: { holding: 6 } }, { r: { holding: 5, poll_interval: '1h' } }));
    const [p, s, r] = await goodOnes(client, ['a.p', 'a.s', 'b.r']);
    expect([p?.value, p?.unit, s?.value, r?.value]).toEqual([0.3, '°C', 6, 5]);
    // What is asked once an hour was not asked again, and is as old as it was.
    expect(r?.timestamp).toBe(before?.timestamp);
    expect(plcs.map(plc => plc.connections)).toEqual([1, 1]);
    const unknown = await callTool(client, 'read_points', { points: ['a.q'] });
    expect(unknown.structured).toMatchObject({ unknown: [{ name: 'a.q' }] });
    await expect(client.readResource({ uri: 'plant://a/q' })).rejects.toThrow('not found');
  });

  test('a connection that is said otherwise is made anew, one that is gone is closed, and a new one is opened', async () => {
    const { plcs, map } = await twoPlcs();
    const both = map({ p: { holding: 3 } }, { r: { holding: 5 } });
    const bridge = await TestBridge.start(both);
    const client = await bridge.client();
    await goodOnes(client, ['a.p', 'b.r']);
    const { connections, devices } = both as { connections: { one: object; two: object }; devices: { a: object; b: object } };
    await bridge.reload({ connections: { one: { ...connections.one, timeout: '400ms' } }, devices: { a: devices.a } });
    await goodOnes(client, ['a.p']);
    expect([plcs[0].connections, plcs[0].openConnections]).toEqual([2, 1]);
    await until(
      () => plcs[1].openConnections,
      count => count === 0,
    );
    await bridge.reload(both);
    await goodOnes(client, ['a.p', 'b.r']);
    expect(plcs[1].connections).toBe(2);
  });

  test('clients keep their sessions and subscriptions, and those are told that lists changed whose lists did', async () => {
    const { map } = await twoPlcs();
    const start = map({ p: { holding: 3, write: {} } }, { r: { holding: 5 } }, WRITES);
    const tokens = (['viewer', 'operator'] as const).map(role => ({
      name: role,
      role,
      sha256: createHash('sha256').update(role).digest('hex'),
    }));
    const http = { http: { auth: { tokens } } };
    const bridge = await TestBridge.start({ ...start, ...http });
    const listen = async (who: string) => {
      const authorization = `Bearer ${who}`;
      const session = { ...(await openSession(bridge.endpoint, '2025-11-25', { authorization })), authorization };
      await send(bridge.endpoint, { headers: session, body: rpc('resources/subscribe', { uri: 'plant://b/r' }) });
      return { session, stream: new EventReader(await open(bridge.endpoint, { method: 'GET', headers: session })) };
    };
    const [viewer, operator] = [await listen('viewer'), await listen('operator')];
    const call = modern('subscriptions/listen', { notifications: { toolsListChanged: true, resourcesListChanged: true } });
    const recent = new EventReader(
      await open(bridge.endpoint, { ...call, headers: { ...call.headers, authorization: 'Bearer operator' } }),
    );
    const told = (reader: EventReader) => reader.events.map(({ method }) => method).filter(method => method?.includes('list_changed'));
    // The same again is no news.
    await bridge.reload({ ...start, ...http });
    // A tool that only who may write is shown.
    await bridge.reload({ ...start, ...http, tools: { set_p: { write: 'a.p' } } });
    await until(
      () => [told(operator.stream), told(recent)],
      lists => lists.every(list => list.length > 0),
    );
    expect([told(viewer.stream), told(operator.stream), told(recent)]).toEqual([
      [],
      ['notifications/tools/list_changed'],
      ['notifications/tools/list_changed'],
    ]);
    await bridge.reload({ ...map({ p: { holding: 3, write: {} }, n: { holding: 9 } }, { r: { holding: 7 } }, WRITES), ...http });
    await until(
      () => told(viewer.stream),
      list => list.includes('notifications/resources/list_changed'),
    );
    await until(
      () => viewer.stream.events,
      events => events.some(({ uri }) => uri === 'plant://b/r'),
    );
    expect((await send(bridge.endpoint, { headers: viewer.session, body: rpc('ping') })).status).toBe(200);
    expect([viewer.stream.ended, operator.stream.ended, recent.ended]).toEqual([false, false, false]);
  });

  test('who is not in the map any more, or has another role, loses sessions and streams at once', async () => {
    const entry = (name: string, role: string) => ({ name, role, sha256: createHash('sha256').update(name).digest('hex') });
    const map = (...tokens: object[]) => ({ connections: {}, devices: {}, http: { auth: { tokens } } });
    const bridge = await TestBridge.start(map(entry('stays', 'viewer'), entry('goes', 'viewer'), entry('rises', 'viewer')));
    const opened = async (name: string) => {
      const authorization = `Bearer ${name}`;
      const headers = { ...(await openSession(bridge.endpoint, '2025-11-25', { authorization })), authorization };
      const call = modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
      const recent = await open(bridge.endpoint, { ...call, headers: { ...call.headers, authorization } });
      return { headers, streams: [new EventReader(await open(bridge.endpoint, { method: 'GET', headers })), new EventReader(recent)] };
    };
    const [stays, goes, rises] = [await opened('stays'), await opened('goes'), await opened('rises')];
    await bridge.reload(map(entry('stays', 'viewer'), entry('rises', 'operator')));
    await until(
      () => [...goes.streams, ...rises.streams],
      streams => streams.every(({ ended }) => ended),
    );
    expect(stays.streams.map(({ ended }) => ended)).toEqual([false, false]);
    const status = async (headers: Record<string, string>) => (await send(bridge.endpoint, { headers, body: rpc('ping') })).status;
    expect([await status(stays.headers), await status(goes.headers), await status(rises.headers)]).toEqual([200, 401, 404]);
    expect((await send(bridge.endpoint, { headers: { authorization: 'Bearer rises' }, body: initialize() })).status).toBe(200);
  });

  test('what only a new start can change is named, and nothing is changed', async () => {
    const { map } = await twoPlcs();
    const bridge = await TestBridge.start(map({ p: { holding: 3 } }, { r: { holding: 5 } }));
    const client = await bridge.client();
    for (const [more, name] of [
      [{ bridge: { name: 'other' } }, 'bridge.name'],
      [{ http: { listen: '127.0.0.1:1' } }, 'http.listen'],
      [{ safety: { audit: '/tmp/elsewhere.jsonl' } }, 'safety.audit'],
    ] as const)
      await expect(bridge.reload(map({ p: { holding: 4 } }, { r: { holding: 5 } }, more))).rejects.toThrow(
        `${name} can not change while the bridge runs`,
      );
    expect((await goodOnes(client, ['a.p']))[0]?.value).toBe(3);
  });
});

test('a device that is new on a connection that is lost is bad at once, with the reason, and comes with it', async () => {
  const plc = await startPlc(new MemoryUnit().set('holding', 0, 7, 8));
  const { port } = plc;
  const slow = { connection: { reconnect: { initial: '5s', max: '5s' } } };
  const bridge = await TestBridge.start(deviceMap(port, { p: { holding: 0 } }, slow));
  const client = await bridge.client();
  await goodOnes(client, ['d.p']);
  await plc.stop();
  const isLost = (name: string) =>
    until(
      () => readSamples(client, [name]),
      ([sample]) => sample?.reason === 'no_connection',
      2000,
    );
  await isLost('d.p');
  await bridge.reload(deviceMap(port, { q: { holding: 1 } }, slow));
  await isLost('d.q');
  await plc.start(port);
  expect((await goodOnes(client, ['d.q']))[0]?.value).toBe(8);
});

test('a map that changes again and again while it is read leaves one connection, right values and nothing behind', async () => {
  const plc = await startPlc(new MemoryUnit().set('holding', 0, ...Array.from({ length: 10 }, (_, i) => i)));
  const map = (round: number) =>
    deviceMap(
      plc.port,
      Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`p${i}`, { holding: i, ...((i + round) % 3 === 0 && { scale: 10 }) }])),
    );
  const bridge = await TestBridge.start(map(0));
  const client = await bridge.client('2025-11-25');
  await client.subscribeResource({ uri: 'plant://d' });
  const names = Array.from({ length: 10 }, (_, i) => `d.p${i}`);
  let isOver = false;
  const wrong: unknown[] = [];
  const reader = (async () => {
    while (!isOver)
      for (const [i, { quality, value }] of (await readSamples(client, names)).entries())
        if (quality === 'bad' ? value !== null : value !== i && value !== i * 10) wrong.push([i, value]);
  })();
  await goodOnes(client, names);
  const before = process.getActiveResourcesInfo().length;
  for (let round = 1; round <= 30; round++) await bridge.reload(map(round));
  const samples = await goodOnes(client, names);
  expect(samples.map(({ value }) => value)).toEqual(Array.from({ length: 10 }, (_, i) => ((i + 30) % 3 === 0 ? i * 10 : i)));
  isOver = true;
  await reader;
  expect(wrong).toEqual([]);
  expect([plc.connections, plc.openConnections]).toEqual([1, 1]);
  await until(
    () => process.getActiveResourcesInfo().length - before,
    more => more <= 3,
  );
});

describe('another map, and writes', () => {
  test('a limit that was lowered holds for a write that was approved by the old one', async () => {
    const { bridge, client, plc, written, audit } = await safePlant({ p: { holding: 0, write: { max: 100, confirm: 'person' } } });
    const { reason = '' } = await writePoint(client, 'd.p', 90);
    const [, id = ''] = /fieldbridge approve (\w+)/.exec(reason) ?? [];
    await bridge.reload(deviceMap(plc.port, { p: { holding: 0, write: { max: 50, confirm: 'person' } } }, WRITES));
    expect(await bridge.decide(id)).toMatchObject({ status: 'refused', rule: 'map' });
    expect(written()).toEqual([]);
    expect(audit().at(-1)).toMatchObject({ kind: 'refusal', rule: 'map' });
    expect(await writePoint(client, 'd.p', 90)).toMatchObject({ status: 'refused', rule: 'limits' });
  });

  test('writes are switched on and off, and tools come and go with that', async () => {
    const { bridge, plc, written } = await safePlant({ p: { holding: 0, write: {} } });
    const client = await bridge.client('2025-11-25');
    const map = (writes: string) => deviceMap(plc.port, { p: { holding: 0, write: {} } }, { safety: { writes } });
    const hasTool = async () => (await client.listTools()).tools.some(({ name }) => name === 'write_point');
    expect(await hasTool()).toBe(true);
    await bridge.reload(map('disabled'));
    expect(await hasTool()).toBe(false);
    expect(await writePoint(client, 'd.p', 5)).toMatchObject({ status: 'refused', rule: 'writes_disabled' });
    await bridge.reload(map('enabled'));
    expect(await hasTool()).toBe(true);
    expect(await writePoint(client, 'd.p', 5)).toMatchObject({ status: 'written' });
    expect(written()).toHaveLength(1);
  });

  test('a bridge that began without writes records them once they are enabled, and counts those of earlier runs', async () => {
    const plc = await startPlc(new MemoryUnit().set('holding', 0, 0));
    const map = (writes: string) => deviceMap(plc.port, { p: { holding: 0, write: { max_per_day: 1 } } }, { safety: { writes } });
    const bridge = await TestBridge.start(map('disabled'));
    const client = await bridge.client();
    await goodOnes(client, ['d.p']);
    await bridge.reload(map('enabled'));
    expect(await writePoint(client, 'd.p', 5)).toMatchObject({ status: 'written' });
    expect(await writePoint(client, 'd.p', 6)).toMatchObject({ status: 'refused', rule: 'max_per_day' });
  });

  test('what the bridge owes a point keeps the map of that point, and of nothing else', async () => {
    const lease = { lease: { ttl: '30s', safe: 1 } };
    const { bridge, client, plc } = await safePlant({ p: { holding: 0, write: lease }, q: { holding: 1 } });
    expect(await writePoint(client, 'd.p', 9)).toMatchObject({ status: 'written' });
    const map = (p: object, q: object) => deviceMap(plc.port, { p: { holding: 0, ...p }, q: { holding: 1, ...q } }, WRITES);
    await expect(bridge.reload(map({ write: { ...lease, max: 5 } }, {}))).rejects.toThrow('d.p can not change now');
    await expect(bridge.reload(map({}, {}))).rejects.toThrow('d.p can not change now');
    await bridge.reload(map({ write: lease }, { unit: 'bar' }));
    const { structured } = await callTool(client, 'get_status');
    expect(structured).toMatchObject({ bridge: { leases: [{ point: 'd.p' }] } });
    expect((await goodOnes(client, ['d.q']))[0]?.unit).toBe('bar');
  });
});

test.skipIf(needsSystem('mosquitto'))(
  'a broker whose devices change is met anew; what is published goes on, and another broker is not touched',
  async () => {
    const [broker, quiet] = [await Mosquitto.start(), await Mosquitto.start()];
    const outside = await broker.client();
    const heard: string[] = [];
    outside.on('message', (topic, payload) => void heard.push(`${topic} ${payload.toString()}`));
    await outside.subscribeAsync(['fieldbridge/+/status', 'plant/#']);
    await outside.publishAsync('a/p', '1', { retain: true, qos: 1 });
    await outside.publishAsync('a/q', '2', { retain: true, qos: 1 });
    await (await quiet.client()).publishAsync('b/r', '3', { retain: true, qos: 1 });
    const map = (points: object) => ({
      connections: { one: { type: 'mqtt', url: broker.url }, two: { type: 'mqtt', url: quiet.url } },
      devices: {
        a: { connection: 'one', points: { p: { topic: 'a/p', type: 'float64' }, ...points } },
        b: { connection: 'two', points: { r: { topic: 'b/r', type: 'float64' } } },
      },
      publish: { connection: 'one', points: 'a.*', topic: 'plant/{device}/{point}', store: 'off' },
    });
    const bridge = await TestBridge.start(map({}));
    const client = await bridge.client();
    const connects = async () => {
      const { connections } = (await callTool(client, 'get_status')).structured as { connections: { name: string; connects: number }[] };
      return Object.fromEntries(connections.map(one => [one.name, one.connects]));
    };
    await goodOnes(client, ['a.p', 'b.r']);
    await bridge.reload(map({ q: { topic: 'a/q', type: 'float64' } }));
    const [p, q, r] = await goodOnes(client, ['a.p', 'a.q', 'b.r']);
    expect([p?.value, q?.value, r?.value]).toEqual([1, 2, 3]);
    expect(await connects()).toEqual({ one: 1, two: 1 });
    await until(
      () => heard,
      list => list.some(text => text.startsWith('plant/a/q')) && list.at(-1) !== 'fieldbridge/test/status offline',
    );
    expect(heard.filter(text => text.startsWith('fieldbridge/'))).toEqual([
      'fieldbridge/test/status online',
      'fieldbridge/test/status offline',
      'fieldbridge/test/status online',
    ]);
  },
);
