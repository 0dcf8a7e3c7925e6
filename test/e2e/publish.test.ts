import { join } from 'node:path';
import type { MqttClient } from 'mqtt';
import sparkplug from 'sparkplug-payload';
import { describe, expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { ConfigError } from '../../src/model/errors.ts';
import { readConfig } from '../../src/protocols.ts';
import { callTool, readSamples, TestBridge, temporaryFolder, until, writeYaml } from '../support/bridge.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { startPlc } from '../support/plc.ts';
import { needsSystem } from '../support/system.ts';

const skip = needsSystem('mosquitto');
const payloads = sparkplug.get('spBv1.0');

const POINTS = {
  flow: { holding: 0, type: 'int16', scale: 0.1, unit: '°C', range: [-20, 150], deadband: 0.5 },
  count: { holding: 1, type: 'uint16' },
  mode: { holding: 2, type: 'uint16', enum: { 0: 'off', 1: 'auto' } },
  secret: { holding: 3, hidden: true },
};

interface Heard {
  readonly topic: string;
  readonly payload: Buffer;
  readonly retain: boolean;
  readonly qos: number;
}

/** Everything that somebody who subscribes to this hears. */
async function listen(client: MqttClient, filter: string): Promise<Heard[]> {
  const heard: Heard[] = [];
  client.on('message', (topic, payload, { retain, qos }) => void heard.push({ topic, payload, retain, qos }));
  await client.subscribeAsync(filter, { qos: 1 });
  return heard;
}

async function plant(publish: object | readonly object[], options: { broker?: Mosquitto; unit?: MemoryUnit; folder?: string } = {}) {
  const broker = options.broker ?? (await Mosquitto.start());
  const unit = options.unit ?? new MemoryUnit().set('holding', 0, 234, 7, 1, 99);
  const plc = await startPlc(unit);
  const folder = options.folder ?? temporaryFolder();
  const withStore = (entry: object) => ({ connection: 'uns', store: { path: join(folder, 'store') }, ...entry });
  const map = {
    connections: {
      plc: { type: 'modbus-tcp', host: '127.0.0.1', port: plc.port, timeout: '1s', reconnect: { initial: '50ms', max: '100ms' } },
      uns: { type: 'mqtt', url: broker.url, timeout: '1s', reconnect: { initial: '100ms', max: '300ms' } },
    },
    // A machine that is busy elsewhere must not make values stale: that would be news too.
    devices: { boiler: { connection: 'plc', poll_interval: '20ms', stale_after: '10s', points: POINTS } },
    publish: Array.isArray(publish) ? publish.map(withStore) : withStore(publish),
  };
  const start = async () => {
    const bridge = await TestBridge.start(map);
    const client = await bridge.client();
    const status = async () =>
      ((await callTool(client, 'get_status')).structured.publish as Record<string, number | string>[])[0] as Record<string, number>;
    return { bridge, client, status };
  };
  return { broker, unit, plc, map, start };
}

const json = ({ payload }: Heard) => JSON.parse(payload.toString()) as { value: unknown; quality: string; timestamp: string };
const of = (heard: readonly Heard[], topic: string) => heard.filter(one => one.topic === topic);

describe.skipIf(skip)('published as JSON', () => {
  test('each point on its topic, retained, with quality, unit and time; hidden ones are not', async () => {
    const { broker, start } = await plant({});
    const { status } = await start();
    await until(status, one => (one.published ?? 0) >= 3);
    const heard = await listen(await broker.client(), 'plant/#');
    await until(
      () => heard.length,
      count => count >= 3,
    );
    expect(heard.map(({ topic, retain }) => [topic, retain]).sort()).toEqual([
      ['plant/boiler/count', true],
      ['plant/boiler/flow', true],
      ['plant/boiler/mode', true],
    ]);
    expect(of(heard, 'plant/boiler/flow').map(json)).toEqual([
      { point: 'boiler.flow', value: 23.4, unit: '°C', quality: 'good', timestamp: expect.stringMatching(/^\d{4}-.*Z$/) },
    ]);
    expect(of(heard, 'plant/boiler/mode').map(json)).toMatchObject([{ value: 'auto' }]);
  });

  test('on change by more than the deadband, and when the quality changes', async () => {
    const { broker, unit, plc, start } = await plant({ points: ['boiler.flow'], topic: '{bridge}/{point}', retain: false, qos: 0 });
    const heard = await listen(await broker.client(), '#');
    await start();
    await until(
      () => of(heard, 'test/flow').length,
      count => count === 1,
    );
    unit.set('holding', 0, 236);
    await new Promise(resolve => setTimeout(resolve, 200));
    unit.set('holding', 0, 250);
    await until(
      () => of(heard, 'test/flow').length,
      count => count === 2,
    );
    await plc.stop();
    const all = await until(
      () => of(heard, 'test/flow'),
      some => some.length === 3,
    );
    expect(all.map(json)).toMatchObject([
      { value: 23.4, quality: 'good' },
      { value: 25, quality: 'good' },
      { value: null, quality: 'bad', last_good: { value: 25 } },
    ]);
  });

  test('the bridge tells whether it is there: as it comes, as it goes, and by its will', async () => {
    const { broker, start } = await plant({});
    const heard = await listen(await broker.client(), 'fieldbridge/test/status');
    const said = () => heard.map(({ payload }) => payload.toString());
    const { bridge } = await start();
    await until(said, all => all.length === 1);
    await bridge.stop();
    await until(said, all => all.length === 2);
    expect(said()).toEqual(['online', 'offline']);
    const late = await listen(await broker.client(), 'fieldbridge/test/status');
    await until(
      () => late,
      all => all.length === 1,
    );
    expect(late).toMatchObject([{ retain: true }]);
  });

  test('while the broker is away what changes is kept, and comes in order, each with its own time; nothing is lost', async () => {
    const { broker, unit, start } = await plant({ points: 'boiler.count' });
    const { client, status } = await start();
    await until(status, one => one.published === 1);
    broker.kill();
    await until(
      () => callTool(client, 'get_status'),
      ({ structured }) => (structured.connections as { state: string }[])[1]?.state === 'disconnected',
    );
    for (let i = 100; i < 140; i++) {
      unit.set('holding', 1, i);
      await until(
        () => readSamples(client, ['boiler.count']),
        ([sample]) => sample?.value === i,
      );
    }
    expect(await status()).toMatchObject({ waiting: 40, dropped: 0 });
    await broker.run();
    const heard = await listen(await broker.client(), 'plant/#');
    await until(status, one => one.waiting === 0);
    await until(
      () => heard,
      all => all.some(one => json(one).value === 139),
    );
    const values = heard.map(one => json(one).value as number);
    // Whoever subscribes a moment late has the newest of what went before as the retained one.
    expect(values).toEqual(Array.from({ length: values.length }, (_, n) => 140 - values.length + n));
    const times = heard.map(one => Date.parse(json(one).timestamp));
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(await status()).toMatchObject({ published: 41, dropped: 0, refused: 0 });
  });

  test('what waits outlives the bridge; a store that is full drops the oldest and counts it', async () => {
    const folder = temporaryFolder();
    const broker = await Mosquitto.start();
    const { unit, start } = await plant({ points: 'boiler.count', store: { path: join(folder, 's'), max: '4kB' } }, { broker });
    broker.kill();
    const first = await start();
    for (let i = 1; i <= 60; i++) {
      unit.set('holding', 1, 1000 + i);
      await until(
        () => readSamples(first.client, ['boiler.count']),
        ([sample]) => sample?.value === 1000 + i,
      );
    }
    const { waiting = 0, dropped = 0, stored_bytes = 0 } = await until(first.status, one => (one.dropped ?? 0) > 0);
    expect(stored_bytes).toBeLessThanOrEqual(4000);
    expect(waiting).toBeGreaterThan(10);
    // The value from before the first of them, and the sixty.
    expect(waiting + dropped).toBe(61);
    await first.bridge.stop();
    await broker.run();
    const heard = await listen(await broker.client(), 'plant/#');
    const second = await start();
    await until(second.status, one => one.waiting === 0 && (one.published ?? 0) > 0);
    const values = await until(
      () => heard.map(one => json(one).value as number),
      all => all.includes(1060),
    );
    // What was still to be written as the bridge stopped may have cost a few more of the oldest.
    const kept = values.slice(0, values.indexOf(1060) + 1);
    expect(kept.length).toBeGreaterThan(10);
    expect(kept.length).toBeLessThanOrEqual(waiting);
    expect(kept).toEqual(kept.map((_, n) => 1060 - kept.length + 1 + n));
  });

  test('what the broker refuses is counted and holds nothing up', async () => {
    const broker = await Mosquitto.start(
      folder => ['allow_anonymous true', `acl_file ${folder}/acl`],
      folder => writeYaml(folder, 'topic readwrite plant/boiler/mode\ntopic readwrite fieldbridge/#\n', 'acl'),
    );
    const { start } = await plant({}, { broker });
    const { status } = await start();
    expect(await until(status, one => one.published === 1 && one.refused === 2)).toMatchObject({ waiting: 0 });
  });
});

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly value: unknown;
  readonly isHistorical?: boolean;
  readonly timestamp: unknown;
  readonly properties?: Record<string, { value: unknown }>;
}

/** As the Tahu project's own library reads it. */
function decoded({ topic, payload }: Heard): { kind: string; device: string | undefined; seq: number; metrics: Metric[] } {
  const { seq, metrics } = payloads?.decodePayload(payload) ?? {};
  const [, , kind = '', , device] = topic.split('/');
  return { kind, device, seq: Number(seq ?? -1), metrics: (metrics ?? []) as Metric[] };
}

describe.skipIf(skip)('published as Sparkplug B', () => {
  const SPARKPLUG = { sparkplug: { group: 'G', edge_node: 'E' } };

  test('birth with types, units and ranges, data in sequence, death by will and as it goes', async () => {
    const { broker, unit, start } = await plant(SPARKPLUG);
    const heard = await listen(await broker.client(), 'spBv1.0/#');
    const messages = () => heard.map(decoded);
    const { bridge } = await start();
    await until(messages, all => all.some(one => one.kind === 'DBIRTH'));
    const [node, device] = messages();
    expect(node).toMatchObject({
      kind: 'NBIRTH',
      seq: 0,
      metrics: [
        { name: 'bdSeq', type: 'Int64' },
        { name: 'Node Control/Rebirth', value: false },
      ],
    });
    expect(device).toMatchObject({
      kind: 'DBIRTH',
      device: 'boiler',
      seq: 1,
      metrics: [
        {
          name: 'flow',
          type: 'Double',
          value: 23.4,
          properties: { engUnit: { value: '°C' }, engLow: { value: -20 }, engHigh: { value: 150 }, Quality: { value: 192 } },
        },
        { name: 'count', type: 'Int64' },
        { name: 'mode', type: 'String', value: 'auto' },
      ],
    });
    // What was read before the session was there may come as of the past.
    const live = () =>
      messages()
        .filter(one => one.kind === 'DDATA')
        .flatMap(one => one.metrics)
        .filter(metric => metric.isHistorical !== true);
    for (let i = 1; i <= 3; i++) {
      unit.set('holding', 1, i);
      await until(live, all => all.length === i);
    }
    expect(live().map(metric => Number(metric.value))).toEqual([1, 2, 3]);
    expect(messages().map(one => one.seq)).toEqual(messages().map((_, i) => i));
    expect(heard.every(one => !one.retain && one.qos === 0)).toBe(true);
    await bridge.stop();
    await until(messages, all => all.at(-1)?.kind === 'NDEATH');
    expect(messages().at(-1)?.metrics[0]).toMatchObject({ name: 'bdSeq', value: messages()[0]?.metrics[0]?.value });
  });

  test('a rebirth that is asked for; other commands, and retained ones, are refused and counted', async () => {
    const broker = await Mosquitto.start();
    const other = await broker.client();
    const command = (name: string) =>
      Buffer.from(payloads?.encodePayload({ timestamp: Date.now(), metrics: [{ name, type: 'Boolean', value: true }] }) ?? []);
    await other.publishAsync('spBv1.0/G/NCMD/E', command('Node Control/Rebirth'), { retain: true, qos: 1 });
    const { start } = await plant(SPARKPLUG, { broker });
    const heard = await listen(other, 'spBv1.0/G/+/E/#');
    const births = () => heard.filter(one => one.topic.includes('NBIRTH')).length;
    const { client, status } = await start();
    await until(births, count => count === 1);
    const connection = async () =>
      ((await callTool(client, 'get_status')).structured.connections as { messages?: Record<string, number> }[])[1]?.messages;
    await until(connection, messages => messages?.retained_commands === 1);
    expect(births()).toBe(1);
    await other.publishAsync('spBv1.0/G/NCMD/E', command('Node Control/Rebirth'), { qos: 0 });
    await until(births, count => count === 2);
    expect(
      heard
        .map(decoded)
        .filter(one => one.kind === 'NBIRTH')
        .map(one => one.seq),
    ).toEqual([0, 0]);
    await other.publishAsync('spBv1.0/G/NCMD/E', command('Node Control/Reboot'), { qos: 1 });
    await other.publishAsync('spBv1.0/G/DCMD/E/boiler', command('mode'), { qos: 1 });
    expect(await until(status, one => one.refused_commands === 2)).toMatchObject({ format: 'sparkplug' });
    expect(births()).toBe(2);
  });

  test('a device that does not answer dies, and is born again', async () => {
    const { broker, plc, start } = await plant(SPARKPLUG);
    const heard = await listen(await broker.client(), 'spBv1.0/#');
    const kinds = () => heard.map(decoded).map(one => one.kind);
    await start();
    await until(kinds, all => all.includes('DBIRTH'));
    const { port } = plc;
    await plc.stop();
    await until(kinds, all => all.includes('DDEATH'));
    await plc.start(port);
    await until(kinds, all => all.filter(kind => kind === 'DBIRTH').length === 2);
    expect(heard.map(decoded).map(one => one.seq)).toEqual(heard.map((_, i) => i));
  });

  test('a lost session leaves the death to the broker; what changed meanwhile comes as of the past, after new births', async () => {
    const { broker, unit, start } = await plant({ ...SPARKPLUG, points: 'boiler.count' });
    const { client, status } = await start();
    await until(status, one => (one.published ?? 0) > 0 && one.waiting === 0);
    broker.kill();
    await until(
      () => callTool(client, 'get_status'),
      ({ structured }) => (structured.connections as { state: string }[])[1]?.state === 'disconnected',
    );
    for (const value of [50, 51, 52]) {
      unit.set('holding', 1, value);
      await until(
        () => readSamples(client, ['boiler.count']),
        ([sample]) => sample?.value === value,
      );
    }
    expect(await status()).toMatchObject({ waiting: 3 });
    await broker.run();
    const heard = await listen(await broker.client(), 'spBv1.0/#');
    await until(status, one => one.waiting === 0);
    // The listener may have come after the births; a rebirth tells the present again.
    const history = await until(
      () => heard.map(decoded).filter(one => one.kind === 'DDATA'),
      all => all.length > 0,
    );
    expect(history.flatMap(one => one.metrics).map(({ name, value, isHistorical }) => [name, Number(value), isHistorical])).toEqual([
      ['count', 50, true],
      ['count', 51, true],
      ['count', 52, true],
    ]);
  });

  test('one bridge feeds another: types, units and qualities come through, and the end of the one is known to the other', async () => {
    const broker = await Mosquitto.start();
    const { unit, start } = await plant(SPARKPLUG, { broker });
    const { bridge } = await start();
    const reader = await (
      await TestBridge.start({
        connections: { scada: { type: 'mqtt', url: broker.url, sparkplug: { group: 'G', edge_node: 'E', device: 'boiler' } } },
        devices: { far: { connection: 'scada' } },
      })
    ).client();
    const read = async () => (await readSamples(reader, ['far.*'])).map(({ point, value, unit: u, quality }) => [point, value, u, quality]);
    await until(read, all => all.length === 3);
    expect(await read()).toEqual([
      ['far.flow', 23.4, '°C', 'good'],
      ['far.count', 7, undefined, 'good'],
      ['far.mode', 'auto', undefined, 'good'],
    ]);
    unit.set('holding', 0, 2000);
    await until(read, ([flow]) => flow?.[1] === 200 && flow[3] === 'uncertain');
    await bridge.stop();
    await until(read, all => all.every(one => one[3] === 'bad'));
  });
});

describe('what to publish', () => {
  const problems = (publish: string, more = ''): string[] => {
    const folder = temporaryFolder();
    const text = `connections:
  plc: { type: modbus-tcp, host: 192.0.2.1 }
  uns: { type: mqtt, url: 'mqtt://192.0.2.2'${more} }
devices:
  boiler: { connection: plc, points: { flow: { holding: 1 }, level: { holding: 2 } } }
  lamp: { connection: uns, points: { state: { topic: plant/lamp/state } } }
publish: ${publish}
`;
    try {
      readConfig([writeYaml(folder, text)]);
      return [];
    } catch (error) {
      if (error instanceof ConfigError) return error.problems.map(({ path, message }) => `${path}: ${message}`);
      throw error;
    }
  };

  test.each([
    ['{ connection: nus }', 'publish.connection: no connection nus, did you mean uns?'],
    ['{ connection: plc }', 'points are published to a broker; plc is of type modbus-tcp'],
    ['{ connection: uns }', 'lamp.state would be published to plant/lamp/state, which lamp.state listens to'],
    ['{ connection: uns, points: [boiler.flow, boiler.levle] }', 'publish.points[1]: no point boiler.levle, did you mean boiler.level?'],
    ['{ connection: uns, points: "boiler.*", topic: all }', 'boiler.flow and boiler.level would both be published to all'],
    ['{ connection: uns, points: "boiler.*", topic: "a/+/{point}" }', 'a message is published to one topic, without + and #'],
    ['{ connection: uns, points: "boiler.*", topic: "{name}" }', '{name} is unknown; there are {device}, {point} and {bridge}'],
    [
      '[{ connection: uns, points: boiler.flow }, { connection: uns, points: boiler.flow }]',
      'would both be published to plant/boiler/flow',
    ],
    ['{ connection: uns, sparkplug: {} }', 'publish.sparkplug.group: group is missing'],
    ['{ connection: uns, sparkplug: { group: G }, topic: x }', 'topic goes with JSON'],
    ['{ connection: uns, sparkplug: { group: a/b } }', 'expected a name without / + and #'],
    [
      '[{ connection: uns, sparkplug: { group: G } }, { connection: uns, sparkplug: { group: H } }]',
      'uns is one Sparkplug edge node already',
    ],
    [
      '{ connection: uns, points: boiler.flow, store: { max: much } }',
      'publish.store.max: expected a size such as 500kB, 50MB or 1GB; got "much"',
    ],
    ['{ connection: uns, points: boiler.flow, topik: x }', 'publish.topik: unknown key topik, did you mean topic?'],
  ])('%s', (publish, message) => {
    expect(problems(publish)).toContainEqual(expect.stringContaining(message));
  });

  test('one will a session', () => {
    expect(problems('{ connection: uns, sparkplug: { group: G } }', ', availability: { topic: x }')).toContainEqual(
      expect.stringContaining('a session has one will'),
    );
    expect(problems('{ connection: uns, sparkplug: { group: G } }', ', clean: false, client_id: x')).toContainEqual(
      expect.stringContaining('a Sparkplug edge node begins each session anew'),
    );
  });

  test('sound ones', () => {
    expect(problems('{ connection: uns, points: "boiler.*" }')).toEqual([]);
    expect(problems('[{ connection: uns, points: "boiler.*", store: off }, { connection: uns, sparkplug: { group: G } }]')).toEqual([]);
  });
});
