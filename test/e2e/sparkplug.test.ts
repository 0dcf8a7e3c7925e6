import { describe, expect, test } from 'vitest';
import { callTool, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { EdgeNode, type Metrics } from '../support/edge-node.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { needsSystem } from '../support/system.ts';

const skip = needsSystem('mosquitto');

const node = (): Metrics => [
  { name: 'Node Control/Rebirth', type: 'Boolean', value: false },
  { name: 'Uptime', type: 'UInt32', value: 4_000_000_000 },
];

/** A press: every data type that is one value, a unit and a range, an alias, and a set of data that is no point. */
const press = (): Metrics => [
  {
    name: 'Process/Temperature',
    alias: 1,
    type: 'Float',
    value: 23.4,
    properties: {
      engUnit: { type: 'String', value: '°C' },
      engLow: { type: 'Double', value: -20 },
      engHigh: { type: 'Double', value: 150 },
    },
  },
  { name: 'Setpoint', alias: 2, type: 'Int16', value: -200 },
  { name: 'Running', type: 'Boolean', value: true },
  { name: 'Parts', type: 'UInt64', value: 12 },
  { name: 'Level', type: 'Int8', value: -5 },
  { name: 'Order', type: 'String', value: 'A\u001b[2J7' },
  { name: 'Started', type: 'DateTime', value: Date.UTC(2026, 0, 2) },
  { name: 'Key', type: 'Bytes', value: new Uint8Array([1, 255]) },
  { name: 'Broken', type: 'Double', value: null as unknown as number, isNull: true },
  {
    name: 'Recipe',
    type: 'DataSet',
    value: { numOfColumns: 1, columns: ['a'], types: ['Int32'], rows: [[1]] },
  },
];

/**
 * A bridge that has asked for a birth, as it does when it comes: asked later, an edge node would tell its first values
 * again in the midst of a test.
 */
async function open(broker: Mosquitto, devices: object, sparkplug: object = {}) {
  const bridge = await TestBridge.start({
    connections: {
      scada: {
        type: 'mqtt',
        url: broker.url,
        timeout: '1s',
        reconnect: { initial: '100ms', max: '500ms' },
        sparkplug: { group: 'Plant 1', edge_node: 'Line 2', device: 'Press', ...sparkplug },
      },
    },
    devices,
    safety: { writes: 'enabled' },
  });
  const client = await bridge.client();
  const read = async (...points: string[]) => readSamples(client, points);
  const one = async (point: string) => (await read(point))[0];
  await until(
    () => callTool(client, 'get_status'),
    ({ structured }) => (structured.connections as { messages: { sent: number } }[])[0]?.messages.sent === 1,
  );
  return { bridge, client, read, one };
}

describe.skipIf(skip)("Sparkplug B, with the Tahu project's client as the edge node", () => {
  test('a birth: metrics become points by name, with type, unit and range', async () => {
    const broker = await Mosquitto.start();
    const { client, read, one } = await open(
      broker,
      { press: { connection: 'scada', sparkplug: { device: 'Press' } }, line: { connection: 'scada' } },
      { device: undefined },
    );
    const edge = EdgeNode.start(broker.url, node, { Press: press });
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
    const { structured } = await callTool(client, 'list_points', { device: 'press' });
    expect(structured.points).toEqual([
      expect.objectContaining({ name: 'press.process_temperature', type: 'float32', unit: '°C', range: [-20, 150], writable: false }),
      expect.objectContaining({ name: 'press.setpoint', type: 'int16' }),
      expect.objectContaining({ name: 'press.running', type: 'bool' }),
      expect.objectContaining({ name: 'press.parts', type: 'uint64' }),
      expect.objectContaining({ name: 'press.level', type: 'int8' }),
      expect.objectContaining({ name: 'press.order', type: 'string' }),
      expect.objectContaining({ name: 'press.started', type: 'unix_ms' }),
      expect.objectContaining({ name: 'press.key', type: 'bytes' }),
      expect.objectContaining({ name: 'press.broken', type: 'float64' }),
    ]);
    expect((await read('press.*')).map(({ value, quality }) => [value, quality])).toEqual([
      [23.4, 'good'],
      [-200, 'good'],
      [true, 'good'],
      [12, 'good'],
      [-5, 'good'],
      ['A\\u001b[2J7', 'good'],
      ['2026-01-02T00:00:00.000Z', 'good'],
      ['01ff', 'good'],
      [null, 'bad'],
    ]);
    // The edge node's own metrics, without those that steer it.
    expect((await read('line.*')).map(({ point, value }) => [point, value])).toEqual([['line.uptime', 4_000_000_000]]);
    edge.nodeData([{ name: 'Uptime', type: 'UInt32', value: 4_294_967_295 }]);
    await until(
      () => one('line.uptime'),
      sample => sample?.value === 4_294_967_295,
    );
    const { resources } = await client.listResources();
    expect(resources.map(resource => resource.uri)).toContain('plant://press/process_temperature');
  });

  test('data by name and by alias; what is of the past stays there; out of range is uncertain', async () => {
    const broker = await Mosquitto.start();
    const { one } = await open(broker, { press: { connection: 'scada' } });
    const edge = EdgeNode.start(broker.url, node, { Press: press });
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
    edge.data('Press', [{ alias: 1, type: 'Float', value: 99.5 } as Metrics[number]]);
    expect(
      await until(
        () => one('press.process_temperature'),
        sample => sample?.value === 99.5,
      ),
    ).toMatchObject({ quality: 'good', unit: '°C' });
    edge.data('Press', [
      { name: 'Process/Temperature', type: 'Float', value: 1, isHistorical: true },
      { name: 'Level', type: 'Int8', value: 7 },
    ]);
    await until(
      () => one('press.level'),
      sample => sample?.value === 7,
    );
    expect((await one('press.process_temperature'))?.value).toBe(99.5);
    edge.data('Press', [{ name: 'Process/Temperature', type: 'Float', value: 200 }]);
    expect(
      await until(
        () => one('press.process_temperature'),
        sample => sample?.value === 200,
      ),
    ).toMatchObject({
      quality: 'uncertain',
      reason: 'out_of_range',
    });
  });

  test('deaths of the device and of the node make the points bad, offline; a new birth brings them back', async () => {
    const broker = await Mosquitto.start();
    const { client, one } = await open(broker, { press: { connection: 'scada' } });
    const edge = EdgeNode.start(broker.url, node, { Press: press });
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
    edge.client.publishDeviceDeath('Press', { timestamp: Date.now() });
    expect(
      await until(
        () => one('press.running'),
        sample => sample?.quality === 'bad',
      ),
    ).toMatchObject({
      value: null,
      reason: 'offline',
      last_good: { value: true },
    });
    edge.birth();
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
    // A birth that somebody else has asked for is no death in between.
    const { structured } = await callTool(client, 'wait_for', { points: ['press.running'], timeout: '10ms' });
    edge.birth();
    edge.data('Press', [{ name: 'Level', type: 'Int8', value: 99 }]);
    await until(
      () => one('press.level'),
      sample => sample?.value === 99,
    );
    expect(
      (await callTool(client, 'wait_for', { points: ['press.running'], cursor: structured.cursor, timeout: '10ms' })).structured,
    ).toMatchObject({ fired: false });
    edge.vanish();
    await until(
      () => one('press.running'),
      sample => sample?.reason === 'offline',
    );
    expect((await callTool(client, 'get_status')).structured.devices).toMatchObject([{ name: 'press', state: 'lost' }]);
    EdgeNode.start(broker.url, node, { Press: press });
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
  });

  test('a gap in the numbers: what is known is doubted, a rebirth is asked for, and it makes all good again', async () => {
    const broker = await Mosquitto.start();
    let level = -5;
    const { client, one } = await open(broker, { press: { connection: 'scada' } });
    const edge = EdgeNode.start(broker.url, node, {
      Press: () => press().map(metric => (metric.name === 'Level' ? { ...metric, value: level } : metric)),
    });
    await until(
      () => one('press.level'),
      sample => sample?.quality === 'good',
    );
    const [asked, born] = [edge.commands.length, edge.births];
    level = 9;
    // Requests keep a pause; whatever of the numbers is lost within it waits for the next.
    const lose = () => {
      edge.loseOne();
      edge.data('Press', [{ name: 'Parts', type: 'UInt64', value: 13 }]);
    };
    lose();
    expect(
      await until(
        () => one('press.running'),
        sample => sample?.quality !== 'good',
      ),
    ).toMatchObject({
      value: true,
      quality: 'uncertain',
      reason: 'stale',
    });
    await until(
      () => {
        if (edge.commands.length === asked) lose();
        return edge.births;
      },
      births => births > born,
    );
    expect(
      await until(
        () => one('press.level'),
        sample => sample?.value === 9,
      ),
    ).toMatchObject({ quality: 'good' });
    expect(await one('press.running')).toMatchObject({ quality: 'good', value: true });
    expect(edge.commands.length).toBe(asked + 1);
    const { structured } = await callTool(client, 'get_status');
    expect((structured.connections as { messages: Record<string, number> }[])[0]?.messages.sequence_gaps).toBeGreaterThan(0);
  });

  test('a bridge that comes later asks for a birth, and one whose broker was away too', async () => {
    const broker = await Mosquitto.start();
    const edge = EdgeNode.start(broker.url, node, { Press: press });
    await until(
      () => edge.births,
      count => count === 1,
    );
    const { one } = await open(broker, { press: { connection: 'scada' } });
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
    expect(edge.births).toBe(2);
    broker.kill();
    await until(
      () => one('press.running'),
      sample => sample?.reason === 'no_connection',
    );
    await broker.run();
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
  });

  test('points of the map: the metric by its name, the type for what is written, and DCMD with verification', async () => {
    const broker = await Mosquitto.start();
    const points = {
      temperature: { metric: 'Process/Temperature', description: 'Of the upper plate', range: [0, 90] },
      setpoint: { metric: 'Setpoint', type: 'int16', scale: 0.1, unit: '°C', write: { min: -50, max: 150, verify: '2s' } },
      running: { metric: 'Running', type: 'bool', write: { verify: '300ms' } },
      missing: { metric: 'Nowhere' },
    };
    const { client, one, read } = await open(broker, { press: { connection: 'scada', points } });
    expect(await writePoint(client, 'press.setpoint', 20)).toMatchObject({
      status: 'failed',
      reason: expect.stringContaining('no birth certificate'),
    });
    const edge = EdgeNode.start(broker.url, node, { Press: press });
    await until(
      () => one('press.setpoint'),
      sample => sample?.quality === 'good',
    );
    edge.client.on('dcmd', (_, payload) =>
      edge.data(
        'Press',
        (payload.metrics ?? []).filter(metric => metric.name === 'Setpoint'),
      ),
    );
    expect(await read('press.*')).toMatchObject([
      { point: 'press.temperature', value: 23.4, unit: '°C' },
      { point: 'press.setpoint', value: -20, unit: '°C' },
      { point: 'press.running', value: true },
      { point: 'press.missing', value: null, reason: 'not_available' },
    ]);
    expect((await callTool(client, 'list_points', { query: 'upper plate' })).structured.points).toMatchObject([
      { name: 'press.temperature', type: 'float32', unit: '°C', range: [0, 90] },
    ]);
    expect(await writePoint(client, 'press.setpoint', 45.5)).toMatchObject({
      status: 'written',
      before: -20,
      after: 45.5,
      wire: ['spBv1.0/Plant 1/DCMD/Line 2/Press Setpoint = 455'],
    });
    expect(edge.commands.filter(command => command.device === 'Press')).toMatchObject([
      { metrics: [{ name: 'Setpoint', type: 'Int16', value: 455 }] },
    ]);
    expect(await writePoint(client, 'press.setpoint', 200)).toMatchObject({ status: 'refused', rule: 'limits' });
    expect(await writePoint(client, 'press.running', false)).toMatchObject({ status: 'unverified', after: true });
  });

  test('clients hear that there are other resources now', async () => {
    const broker = await Mosquitto.start();
    const { bridge } = await open(broker, { press: { connection: 'scada' } });
    for (const revision of ['2025-11-25', '2026-07-28'] as const) {
      const client = await bridge.client(revision);
      let heard = 0;
      client.setNotificationHandler('notifications/resources/list_changed', () => {
        heard++;
      });
      if (revision === '2026-07-28') await client.listen({ resourcesListChanged: true });
      const edge = EdgeNode.start(broker.url, node, { Press: () => [...press(), { name: `New ${revision}`, type: 'Int8', value: 1 }] });
      await until(
        () => heard,
        count => count > 0,
      );
      edge.client.stop();
    }
  });

  test('what is no Sparkplug payload is counted and changes nothing', async () => {
    const broker = await Mosquitto.start();
    const { client, one } = await open(broker, { press: { connection: 'scada' } });
    EdgeNode.start(broker.url, node, { Press: press });
    await until(
      () => one('press.running'),
      sample => sample?.quality === 'good',
    );
    const other = await broker.client();
    for (const payload of ['no protobuf at all', Buffer.from([0xff, 0xff, 0xff]), Buffer.from([0x12, 0x7f, 0x01])])
      await other.publishAsync('spBv1.0/Plant 1/DDATA/Line 2/Press', payload, { qos: 1 });
    await until(
      () => callTool(client, 'get_status'),
      ({ structured }) => (structured.connections as { messages: Record<string, number> }[])[0]?.messages.undecodable === 3,
    );
    expect(await one('press.running')).toMatchObject({ quality: 'good', value: true });
  });
});
