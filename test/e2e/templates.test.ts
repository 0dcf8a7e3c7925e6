import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { unitFromMap } from '../../simulators/from-map.ts';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { templateNames } from '../../src/config/templates.ts';
import type { ModbusPoint } from '../../src/drivers/modbus/point.ts';
import { ConfigError } from '../../src/model/errors.ts';
import { readConfig } from '../../src/protocols.ts';
import { readSamples, TestBridge, temporaryFolder, until, writePoint, writeYaml } from '../support/bridge.ts';
import { startPlc } from '../support/plc.ts';

const CONNECTIONS = { plc: { type: 'modbus-tcp', host: '127.0.0.1', port: 502 } };
const mapWith = (use: object, more: object = {}, port = 502) => ({
  connections: { plc: { ...CONNECTIONS.plc, port, timeout: '300ms' } },
  devices: { d: { connection: 'plc', use, ...more } },
});
const pointsOf = (use: object, more: object = {}): readonly ModbusPoint[] =>
  [...readConfig([writeYaml(temporaryFolder(), mapWith(use, more))]).plant.points.values()] as ModbusPoint[];
const problemsOf = (use: object, folder = temporaryFolder()): string => {
  try {
    readConfig([writeYaml(folder, mapWith(use))]);
    return '';
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
};

test('there are maps of twelve devices of different makers and kinds', () => {
  expect(templateNames().length).toBeGreaterThanOrEqual(12);
});

describe.each(templateNames())('the template %s', name => {
  const file = parse(readFileSync(new URL(`../../config/templates/${name}.yaml`, import.meta.url), 'utf8')) as Record<string, string>;

  test('says what it is and where its registers come from, writes nothing, and has no address twice', () => {
    expect(file.template).toBe(name);
    expect(file.title?.length).toBeGreaterThan(10);
    expect(file.source?.length).toBeGreaterThan(20);
    const points = pointsOf({ template: name });
    expect(points.length).toBeGreaterThanOrEqual(5);
    const taken = new Map<string, string>();
    for (const point of points) {
      expect(point.write).toBeUndefined();
      for (let address = point.address; address < point.address + point.registers; address++) {
        const key = `${point.table} ${point.model ?? ''} ${address}`;
        expect(taken.get(key), `${point.name} and ${taken.get(key)} at ${key}`).toBeUndefined();
        taken.set(key, point.name);
      }
    }
  });

  test('is polled whole on a device that has just these addresses', async () => {
    const points = pointsOf({ template: name });
    const unitId = Number((file.device as unknown as { unit_id?: number }).unit_id ?? 3);
    const plc = await startPlc(new Map([[unitId, unitFromMap(points)]]));
    const bridge = await TestBridge.start(mapWith({ template: name, unit_id: unitId, poll_interval: '100ms' }, {}, plc.port));
    const client = await bridge.client();
    const samples = await until(
      () =>
        readSamples(
          client,
          points.map(point => point.name),
        ),
      all => all.every(sample => sample.reason !== 'initialising'),
    );
    for (const sample of samples) expect(sample, sample.point).not.toMatchObject({ quality: 'bad' });
  });
});

describe('use', () => {
  test('sets unit id and interval; what stands in the device comes on top', () => {
    const own = {
      description: 'Main meter',
      points: { voltage_l1: { deadband: 1, poll_interval: '5s' }, extra: { input: 400, type: 'float32' } },
    };
    const config = readConfig([
      writeYaml(temporaryFolder(), mapWith({ template: 'eastron-sdm630', unit_id: 7, poll_interval: '2s' }, own)),
    ]);
    const { plant, devices } = config;
    expect(devices[0]?.raw.unit_id).toBe(7);
    expect(plant.devices.get('d')?.description).toBe('Main meter');
    expect(plant.points.get('d.voltage_l1')).toMatchObject({ address: 0, unit: 'V', deadband: { absolute: 1 }, pollInterval: 5000 });
    expect(plant.points.get('d.power')).toMatchObject({ address: 52, pollInterval: 2000 });
    expect(plant.points.get('d.extra')).toMatchObject({ address: 400 });
  });

  test('base moves every address', () => {
    expect(pointsOf({ template: 'victron-gx-battery', base: 1000 }).map(point => point.address)).toEqual([1840, 1841, 1842, 1843, 1844]);
  });

  test('a template of the plant itself, from a file beside the map', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'mine.yaml'), 'template: mine\ndevice: { unit_id: 4, points: { a: { holding: 1 } } }\n');
    const config = readConfig([writeYaml(folder, mapWith({ template: 'mine.yaml' }))]);
    expect([...config.plant.points.keys()]).toEqual(['d.a']);
  });

  test('mistakes are told', () => {
    expect(problemsOf({ template: 'eastron-sdm603' })).toContain(
      'devices.d.use.template: there is no template eastron-sdm603, did you mean eastron-sdm630?',
    );
    expect(problemsOf({ template: 'none.yaml' })).toContain('the template none.yaml can not be read: there is no such file');
    expect(problemsOf({ template: '../../../etc/passwd' })).toContain('there is no template');
    expect(problemsOf({ template: 'eastron-sdm630', unit: 3 })).toContain('unknown key unit, did you mean unit_id?');
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'odd.yaml'), 'just: text\n');
    expect(problemsOf({ template: 'odd.yaml' }, folder)).toContain('odd.yaml is no template');
  });
});

describe('SunSpec by model discovery', () => {
  const points = {
    power: { model: 103, holding: 14, type: 'int16', scale_from: 'sf', unit: 'W' },
    sf: { model: 103, holding: 15, type: 'int16' },
    limit: { model: 123, holding: 5, write: {} },
  };
  const map = (port: number) => ({
    connections: { plc: { ...CONNECTIONS.plc, port } },
    devices: { d: { connection: 'plc', poll_interval: '50ms', points } },
    safety: { writes: 'enabled' },
  });
  const models = (unit: MemoryUnit, base: number, list: readonly (readonly [number, number])[]): MemoryUnit => {
    let at = base + 2;
    unit.set('holding', base, 0x5375, 0x6e53);
    for (const [id, length] of list) {
      unit.set('holding', at, id, length, ...Array.from({ length }, (_, i) => i + 2));
      at += 2 + length;
    }
    return unit.set('holding', at, 0xffff, 0);
  };

  test.each([40_000, 50_000, 0])('a map that begins at %d, in one reply with its scale factor', async base => {
    const unit = models(new MemoryUnit(), base, [
      [1, 66],
      [11, 13],
      [103, 50],
      [123, 24],
    ]);
    const start = base + 2 + 68 + 15;
    unit.set('holding', start + 14, 1234, 0xffff);
    const plc = await startPlc(unit);
    const client = await (await TestBridge.start(map(plc.port))).client();
    const [power] = await until(
      () => readSamples(client, ['d.power']),
      ([sample]) => sample?.reason !== 'initialising',
    );
    expect(power).toMatchObject({ value: 123.4, quality: 'good' });
    expect(await writePoint(client, 'd.limit', 50)).toMatchObject({ status: 'written', before: 5 });
    expect(unit.tables.holding.get(start + 52 + 5)).toBe(50);
  });

  test('a model that the device does not have: no value, and no write to anywhere', async () => {
    const unit = models(new MemoryUnit(), 40_000, [
      [1, 66],
      [103, 50],
    ]).set('holding', 0, ...Array.from({ length: 20 }, () => 7));
    const plc = await startPlc(unit);
    plc.keepRequests = 1000;
    const client = await (await TestBridge.start(map(plc.port))).client();
    const [limit] = await until(
      () => readSamples(client, ['d.limit']),
      ([sample]) => sample?.reason !== 'initialising',
    );
    expect(limit).toMatchObject({ value: null, quality: 'bad', reason: 'not_available' });
    expect(await writePoint(client, 'd.limit', 50)).toMatchObject({
      status: 'refused',
      reason: expect.stringContaining('has no SunSpec model 123'),
    });
    expect(plc.requests.filter(({ pdu }) => pdu.readUInt8(0) > 4)).toEqual([]);
  });
});
