import { readFileSync } from 'node:fs';
import type { IPublishPacket, MqttClient } from 'mqtt';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { PublicSample } from '../../src/model/sample.ts';
import { callTool, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { needsSystem } from '../support/system.ts';

interface Case {
  readonly id: string;
  readonly lesson?: string;
  readonly point: object;
  readonly payload?: string;
  readonly payload_hex?: string;
  readonly expect: { readonly value: unknown; readonly quality: string; readonly reason?: string };
}

const cases = parse(readFileSync(new URL('../cases/mqtt.yaml', import.meta.url), 'utf8')) as Record<string, Case[]>;
const all = Object.values(cases).flat();
const skip = needsSystem('mosquitto');

const mapOf = (broker: Mosquitto, points: object, more: { connection?: object; device?: object } = {}) => ({
  connections: {
    broker: { type: 'mqtt', url: broker.url, timeout: '1s', reconnect: { initial: '100ms', max: '500ms' }, ...more.connection },
  },
  devices: { d: { connection: 'broker', points, ...more.device } },
  safety: { writes: 'enabled' },
});

async function open(map: object) {
  const client = await (await TestBridge.start(map)).client();
  const read = (...points: string[]) => readSamples(client, points);
  const connected = () =>
    until(
      () => callTool(client, 'get_status'),
      ({ structured }) => (structured.connections as { state: string }[])[0]?.state === 'connected',
    );
  await connected();
  return { client, read, connected };
}

const isHeard = (samples: readonly PublicSample[]): boolean => samples.every(sample => sample.reason !== 'initialising');

describe.skipIf(skip)('what a message says of a point', () => {
  test.each(all.map(one => [one.lesson === undefined ? one.id : `${one.id}: ${one.lesson}`, one] as const))('%s', async (_, one) => {
    const broker = await Mosquitto.start();
    const { read } = await open(mapOf(broker, { p: one.point }));
    const other = await broker.client();
    const payload = one.payload_hex === undefined ? Buffer.from(one.payload ?? '') : Buffer.from(one.payload_hex, 'hex');
    const [sample] = await until(async () => {
      await other.publishAsync('t', payload, { qos: 1 });
      return await read('d.p');
    }, isHeard);
    expect({ value: sample?.value, quality: sample?.quality, reason: sample?.reason }).toEqual({ reason: undefined, ...one.expect });
  });
});

describe.skipIf(skip)('a session with a broker', () => {
  test('a retained value of unknown age is stale where the map says how long a value is fresh, until a new one comes', async () => {
    const broker = await Mosquitto.start();
    const other = await broker.client();
    await other.publishAsync('t', '21.5', { retain: true });
    const { read } = await open(mapOf(broker, { aging: { topic: 't', stale_after: '60s' }, state: { topic: 't' } }));
    const seen = async () => (await read('d.*')).map(({ value, quality, reason }) => [value, quality, reason]);
    await until(() => read('d.*'), isHeard);
    expect(await seen()).toEqual([
      [21.5, 'uncertain', 'stale'],
      [21.5, 'good', undefined],
    ]);
    await other.publishAsync('t', '22', { qos: 1 });
    await until(
      () => read('d.*'),
      samples => samples.every(sample => sample.value === 22),
    );
    expect(await seen()).toEqual([
      [22, 'good', undefined],
      [22, 'good', undefined],
    ]);
  });

  test('retained values are there at once, wildcards reach several topics, and each topic is subscribed to once', async () => {
    const broker = await Mosquitto.start();
    const other = await broker.client();
    await other.publishAsync('house/kitchen/t', '21.5', { retain: true });
    const points = {
      a: { topic: 'house/kitchen/t' },
      b: { topic: 'house/kitchen/t', scale: 10 },
      any: { topic: 'house/+/t' },
      below: { topic: 'house/#' },
    };
    const { read } = await open(mapOf(broker, points));
    expect((await until(() => read('d.*'), isHeard)).map(sample => sample.value)).toEqual([21.5, 215, 21.5, 21.5]);
    await other.publishAsync('house/bath/t', '24', { qos: 1 });
    expect(
      (
        await until(
          () => read('d.*'),
          samples => samples[2]?.value === 24,
        )
      ).map(sample => sample.value),
    ).toEqual([21.5, 215, 24, 24]);
  });

  test('broker gone: bad with the reason; back: good again by itself, within the longest pause', async () => {
    const broker = await Mosquitto.start();
    const { read } = await open(mapOf(broker, { p: { topic: 't' } }));
    const other = await broker.client();
    await other.publishAsync('t', '1', { qos: 1, retain: true });
    await until(
      () => read('d.p'),
      ([sample]) => sample?.quality === 'good',
    );
    broker.kill();
    expect(
      (
        await until(
          () => read('d.p'),
          ([sample]) => sample?.quality === 'bad',
        )
      )[0],
    ).toMatchObject({ value: null, reason: 'no_connection', last_good: { value: 1 } });
    await broker.run();
    const again = await broker.client();
    await again.publishAsync('t', '2', { qos: 1, retain: true });
    expect(
      (
        await until(
          () => read('d.p'),
          ([sample]) => sample?.quality === 'good',
          3000,
        )
      )[0]?.value,
    ).toBe(2);
  });

  test('a password that is wrong is told, and not hidden behind a time-out', async () => {
    const broker = await Mosquitto.start(['allow_anonymous false']);
    const client = await (
      await TestBridge.start(mapOf(broker, { p: { topic: 't' } }, { connection: { username: 'a', password: 'tops3cret' } }))
    ).client();
    const status = await until(
      () => callTool(client, 'get_status'),
      ({ structured }) => /authori[sz]ed/i.test(JSON.stringify(structured.connections)),
    );
    expect(JSON.stringify(status)).not.toContain('tops3cret');
  });

  test('of a topic that is silent nothing is waited for, once it has been silent for a while', async () => {
    const broker = await Mosquitto.start();
    const { read } = await open(mapOf(broker, { silent: { topic: 'silent' } }));
    expect((await read('d.silent'))[0]).toMatchObject({ value: null, quality: 'bad', reason: 'initialising' });
    const before = performance.now();
    for (let i = 0; i < 5; i++) await read('d.silent');
    // One wait is three seconds long.
    expect(performance.now() - before).toBeLessThan(2500);
  });

  test('availability: offline makes the points bad, online lets the next message count', async () => {
    const broker = await Mosquitto.start();
    const { read } = await open(mapOf(broker, { p: { topic: 't' } }, { device: { availability: { topic: 'lwt' } } }));
    const other = await broker.client();
    await other.publishAsync('t', '1', { qos: 1 });
    await until(
      () => read('d.p'),
      ([sample]) => sample?.quality === 'good',
    );
    await other.publishAsync('lwt', 'offline', { qos: 1 });
    expect(
      (
        await until(
          () => read('d.p'),
          ([sample]) => sample?.quality === 'bad',
        )
      )[0],
    ).toMatchObject({ value: null, reason: 'offline' });
    await other.publishAsync('lwt', 'online', { qos: 1 });
    await other.publishAsync('t', '2', { qos: 1 });
    expect(
      (
        await until(
          () => read('d.p'),
          ([sample]) => sample?.quality === 'good',
        )
      )[0]?.value,
    ).toBe(2);
  });

  test('no message for stale_after: uncertain; a payload over the limit is bad and counted', async () => {
    const broker = await Mosquitto.start();
    const { read, client } = await open(mapOf(broker, { p: { topic: 't', stale_after: '300ms' } }, { connection: { payload_limit: 100 } }));
    const other = await broker.client();
    await other.publishAsync('t', '1', { qos: 1 });
    expect(
      (
        await until(
          () => read('d.p'),
          ([sample]) => sample?.quality === 'uncertain',
        )
      )[0],
    ).toMatchObject({ value: 1, reason: 'stale' });
    await other.publishAsync('t', `1${' '.repeat(200)}`, { qos: 1 });
    expect(
      (
        await until(
          () => read('d.p'),
          ([sample]) => sample?.quality === 'bad',
        )
      )[0],
    ).toMatchObject({ reason: 'decode_error' });
    expect((await callTool(client, 'get_status')).structured.connections).toMatchObject([{ protocol_errors: 1 }]);
  });
});

describe.skipIf(skip)('writing', () => {
  const lamp = { topic: 'lamp/state', type: 'bool', on: 'ON', off: 'OFF', write: { topic: 'lamp/set', verify: '500ms' } };

  test('publishes the payload, and is written when the state topic says so', async () => {
    const broker = await Mosquitto.start();
    const device = await broker.client();
    const heard: [string, boolean][] = [];
    await device.subscribeAsync('lamp/set');
    device.on('message', (_, payload, packet) => {
      heard.push([payload.toString(), packet.retain]);
      device.publish('lamp/state', payload, { retain: true });
    });
    await device.publishAsync('lamp/state', 'OFF', { retain: true });
    const { client, read } = await open(mapOf(broker, { lamp }));
    await until(
      () => read('d.lamp'),
      ([sample]) => sample?.quality === 'good',
    );
    expect(await writePoint(client, 'd.lamp', true)).toMatchObject({
      status: 'written',
      before: false,
      after: true,
      wire: ['lamp/set ON'],
    });
    expect(await writePoint(client, 'd.lamp', true)).toMatchObject({ status: 'unchanged' });
    expect(heard).toEqual([['ON', false]]);
  });

  test('a state that stays what it was is unverified, and said so', async () => {
    const broker = await Mosquitto.start();
    const device = await broker.client();
    await device.publishAsync('lamp/state', 'OFF', { retain: true });
    const { client, read } = await open(mapOf(broker, { lamp }));
    await until(
      () => read('d.lamp'),
      ([sample]) => sample?.quality === 'good',
    );
    expect(await writePoint(client, 'd.lamp', true)).toMatchObject({ status: 'unverified', after: false });
  });

  test('numbers by type and scale; off the grid is refused; without a broker nothing is sent', async () => {
    const broker = await Mosquitto.start();
    const device = await broker.client();
    await device.subscribeAsync('set');
    device.on('message', (_, payload) => void device.publish('state', payload, { retain: true }));
    await device.publishAsync('state', '200', { retain: true });
    const { client, read } = await open(
      mapOf(broker, { p: { topic: 'state', type: 'int16', scale: 0.1, unit: '°C', write: { topic: 'set', max: 30 } } }),
    );
    await until(
      () => read('d.p'),
      ([sample]) => sample?.value === 20,
    );
    expect(await writePoint(client, 'd.p', 21.5)).toMatchObject({ status: 'written', wire: ['set 215'] });
    expect(await writePoint(client, 'd.p', 21.55)).toMatchObject({
      status: 'refused',
      reason: expect.stringContaining('nearest 21.5 and 21.6'),
    });
    expect(await writePoint(client, 'd.p', 31)).toMatchObject({ status: 'refused', rule: 'limits' });
    broker.kill();
    await until(
      () => read('d.p'),
      ([sample]) => sample?.quality === 'bad',
    );
    expect(await writePoint(client, 'd.p', 20)).toMatchObject({ status: 'failed', reason: expect.stringContaining('nothing was sent') });
  });

  test('a payload expression makes JSON of the raw value; what it makes is shown before it is sent', async () => {
    const broker = await Mosquitto.start();
    const device = await broker.client();
    const heard: string[] = [];
    await device.subscribeAsync('light/set');
    device.on('message', (_, payload) => {
      heard.push(payload.toString());
      const { brightness } = JSON.parse(payload.toString()) as { brightness: number };
      device.publish('light', JSON.stringify({ brightness }), { retain: true });
    });
    await device.publishAsync('light', '{"brightness":10}', { retain: true });
    const write = { topic: 'light/set', payload: "{'brightness': value, 'transition': 1.5, 'from': 'bridge'}" };
    const light = { topic: 'light', value: 'payload.brightness', type: 'uint8', scale: 0.5, unit: '%', write };
    const { client, read } = await open(mapOf(broker, { light }));
    await until(() => read('d.light'), isHeard);
    const wire = ['light/set {"brightness":200,"transition":1.5,"from":"bridge"}'];
    expect(await writePoint(client, 'd.light', 100, { dry_run: true })).toMatchObject({ status: 'simulated', wire });
    expect(await writePoint(client, 'd.light', 100)).toMatchObject({ status: 'written', before: 5, after: 100, wire });
    expect(heard).toHaveLength(1);
  });

  test('without a topic that tells the state a write is unverified, never written, and is sent each time', async () => {
    const broker = await Mosquitto.start();
    const device = await broker.client();
    const heard: string[] = [];
    await device.subscribeAsync('siren');
    device.on('message', (_, payload) => void heard.push(payload.toString('hex')));
    const siren = { type: 'uint16', encoding: 'binary', order: 'BADC', write: { topic: 'siren', max: 600 } };
    const { client, read } = await open(mapOf(broker, { siren }));
    expect((await read('d.siren'))[0]).toMatchObject({ value: null, quality: 'bad', reason: 'not_available' });
    for (let i = 0; i < 2; i++)
      expect(await writePoint(client, 'd.siren', 258)).toMatchObject({
        status: 'unverified',
        reason: expect.stringContaining('no topic tells the state of d.siren'),
      });
    await until(
      () => heard,
      all => all.length === 2,
    );
    expect(heard).toEqual(['0201', '0201']);
  });

  test('what a point was an unknown time ago is no reason to leave a command unsent', async () => {
    const broker = await Mosquitto.start();
    const device = await broker.client();
    const heard: string[] = [];
    await device.subscribeAsync('lamp/set');
    device.on('message', (_, payload) => {
      heard.push(payload.toString());
      device.publish('lamp/state', payload);
    });
    await device.publishAsync('lamp/state', 'ON', { retain: true });
    const { client, read } = await open(mapOf(broker, { lamp: { ...lamp, stale_after: '60s' } }));
    await until(
      () => read('d.lamp'),
      ([sample]) => sample?.reason === 'stale',
    );
    expect(await writePoint(client, 'd.lamp', true)).toMatchObject({ status: 'written', after: true });
    expect(heard).toEqual(['ON']);
  });

  describe('a device that answers (MQTT 5 request and response)', () => {
    const door = {
      topic: 'door',
      type: 'bool',
      write: { topic: 'door/set', verify: '500ms', response: { topic: 'answers', within: '400ms', ok: 'payload.ok' } },
    };

    async function withDevice(answer: (device: MqttClient, packet: IPublishPacket) => void) {
      const broker = await Mosquitto.start();
      const device = await broker.client({ protocolVersion: 5 });
      await device.publishAsync('door', 'false', { retain: true });
      await device.subscribeAsync('door/set');
      device.on('message', (_topic, _payload, packet) => answer(device, packet));
      const bridge = await open(mapOf(broker, { door }));
      await until(() => bridge.read('d.door'), isHeard);
      return { ...bridge, broker };
    }

    const respond = (device: MqttClient, { properties }: IPublishPacket, payload: object, retain = false): void => {
      const { responseTopic, correlationData } = properties ?? {};
      if (responseTopic === undefined || correlationData === undefined) throw new Error('no request');
      device.publish(responseTopic, JSON.stringify(payload), { retain, properties: { correlationData } });
    };

    test('yes: the state topic then verifies it', async () => {
      const { client } = await withDevice((device, packet) => {
        device.publish('door', 'true', { retain: true });
        respond(device, packet, { ok: true });
      });
      expect(await writePoint(client, 'd.door', true)).toMatchObject({ status: 'written', after: true });
    });

    test("no: failed, with the device's words as data", async () => {
      const { client } = await withDevice((device, packet) => respond(device, packet, { ok: false, why: 'someone\u001b[2J inside' }));
      expect(await writePoint(client, 'd.door', true)).toMatchObject({
        status: 'failed',
        reason: expect.stringMatching(/^the device answered .*someone\\+u001b\[2J inside/),
      });
    });

    test('no answer, or one that the broker kept: unknown, and the kept one is counted', async () => {
      const { client, broker } = await withDevice((device, packet) => {
        respond(device, { ...packet, properties: { ...packet.properties, correlationData: Buffer.from('else') } }, { ok: true });
      });
      const other = await broker.client();
      await other.publishAsync('answers', '{"ok":true}', { retain: true });
      expect(await writePoint(client, 'd.door', true)).toMatchObject({
        status: 'unknown',
        reason: expect.stringContaining('the device did not answer within 400 ms'),
      });
      const { structured } = await callTool(client, 'get_status');
      expect(structured.connections).toMatchObject([{ messages: { retained_commands: 0 } }]);
      // A bridge that comes later is handed the kept one.
      const late = await open(mapOf(broker, { door }));
      await until(
        () => callTool(late.client, 'get_status'),
        ({ structured }) => (structured.connections as { messages: Record<string, number> }[])[0]?.messages.retained_commands === 1,
      );
    });
  });
});

describe.skipIf(skip)('the time of the source', () => {
  test.each([
    ['payload.time', () => new Date(Date.now() - 90_000).toISOString()],
    ['payload.time', () => Math.round((Date.now() - 90_000) / 1000)],
    ['payload.time', () => Date.now() - 90_000],
    ['timestamp(payload.time)', () => new Date(Date.now() - 90_000).toISOString()],
  ])('%s (%#): the age counts from it, and so does staleness', async (timestamp, time) => {
    const broker = await Mosquitto.start();
    const point = { topic: 't', value: 'payload.v', timestamp };
    const { read } = await open(mapOf(broker, { open: point, aging: { ...point, stale_after: '60s' } }));
    const other = await broker.client();
    await other.publishAsync('t', JSON.stringify({ v: 5, time: time() }), { qos: 1 });
    const [any, aging] = await until(() => read('d.open', 'd.aging'), isHeard);
    expect(any).toMatchObject({ value: 5, quality: 'good' });
    expect(aging).toMatchObject({ value: 5, quality: 'uncertain', reason: 'stale' });
    for (const sample of [any, aging]) {
      expect(sample?.age_ms).toBeGreaterThan(88_000);
      expect(sample?.age_ms).toBeLessThan(100_000);
      expect(Date.now() - Date.parse(sample?.timestamp ?? '')).toBeGreaterThan(88_000);
    }
  });

  test('a time that can not be read leaves the value in doubt; a clock that is ahead makes nothing younger than now', async () => {
    const broker = await Mosquitto.start();
    const { read } = await open(mapOf(broker, { p: { topic: 't', value: 'payload.v', timestamp: 'payload.time' } }));
    const other = await broker.client();
    await other.publishAsync('t', '{"v":1,"time":"yesterday"}', { qos: 1 });
    expect((await until(() => read('d.p'), isHeard))[0]).toMatchObject({ value: 1, quality: 'uncertain', reason: 'stale' });
    await other.publishAsync('t', JSON.stringify({ v: 2, time: Date.now() + 3_600_000 }), { qos: 1 });
    const [sample] = await until(
      () => read('d.p'),
      ([one]) => one?.value === 2,
    );
    expect(sample).toMatchObject({ quality: 'good' });
    expect(sample?.age_ms).toBeGreaterThanOrEqual(0);
    expect(sample?.age_ms).toBeLessThan(10_000);
  });
});
