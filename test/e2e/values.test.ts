import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { MemoryUnit, type TableName } from '../../simulators/modbus-server.ts';
import type { PublicSample } from '../../src/model/sample.ts';
import { deviceMap, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { startPlc } from '../support/plc.ts';

interface Case {
  readonly id: string;
  readonly lesson?: string;
  readonly point: Record<string, unknown>;
  readonly registers: readonly string[];
  readonly bits?: Record<string, number[]>;
  readonly before?: readonly string[];
  readonly address?: string;
  readonly expect: Record<string, unknown>;
  readonly write?: unknown;
  readonly points?: Record<string, Record<string, unknown>>;
}

const cases = parse(readFileSync(new URL('../cases/values.yaml', import.meta.url), 'utf8')) as Record<string, Case[]>;
const casesOf = (...groups: string[]): [string, Case][] =>
  groups.flatMap(group => cases[group] ?? []).map(one => [`${one.id}${one.lesson === undefined ? '' : `: ${one.lesson}`}`, one]);

/** Where the case says that the words lie on the wire. */
function place(one: Case): { table: TableName; address: number } {
  const [, table, address] = /^(\w+) (\d+)/.exec(one.address ?? '') ?? [];
  if (table !== undefined) return { table: table as TableName, address: Number(address) };
  const key = (['input', 'holding'] as const).find(name => name in one.point) ?? 'holding';
  return { table: key, address: Number(one.point[key] ?? 0) };
}

const isPolled = (samples: readonly PublicSample[]): boolean =>
  samples.length > 0 && samples.every(sample => sample.reason !== 'initialising');

describe('a value on the wire reads as it should', () => {
  test.each(casesOf('decode', 'varied'))('%s', async (_, one) => {
    const unit = new MemoryUnit();
    const { table, address } = place(one);
    for (const [i, word] of (one.registers ?? []).entries()) unit.set(table, address + i, Number(word));
    for (const [bitTable, bits] of Object.entries(one.bits ?? {})) unit.set(bitTable as TableName, 0, ...bits);
    const unitId = one.id === 'raw-40560' ? 0 : 1;
    const plc = await startPlc(new Map([[unitId, unit]]));
    plc.keepRequests = 10;
    const bridge = await TestBridge.start(deviceMap(plc.port, { p: one.point }, { device: { unit_id: unitId } }));
    const client = await bridge.client();
    const [sample] = await until(() => readSamples(client, ['d.p']), isPolled);
    expect({ value: sample?.value, quality: sample?.quality, reason: sample?.reason }).toEqual({ reason: undefined, ...one.expect });
    if (one.point.unit !== undefined) expect(sample?.unit).toBe(one.point.unit);
    expect(plc.requests[0]?.unit).toBe(unitId);
    if (one.address !== undefined) expect(plc.requests[0]?.pdu.readUInt16BE(1)).toBe(address);
  });
});

describe('a value and the scale factor beside it', () => {
  test.each(casesOf('sunspec'))('%s', async (_, one) => {
    const unit = new MemoryUnit().set('holding', 0, ...one.registers.map(Number));
    const plc = await startPlc(unit);
    plc.keepRequests = 10;
    const bridge = await TestBridge.start(deviceMap(plc.port, one.points ?? {}));
    const client = await bridge.client();
    const samples = await until(
      () =>
        readSamples(
          client,
          Object.keys(one.points ?? {}).map(id => `d.${id}`),
        ),
      isPolled,
    );
    for (const [id, expected] of Object.entries(one.expect)) {
      expect(samples.find(sample => sample.point === `d.${id}`)).toMatchObject(expected as object);
    }
    // Both come from one response.
    expect(plc.requests[0]?.pdu.readUInt16BE(3)).toBe(2);
  });
});

describe('a value that is written', () => {
  test.each(casesOf('write', 'varied_write'))('%s', async (_, one) => {
    const expected = one.expect as { registers?: string[]; status?: string; because?: string };
    const size = Math.max(expected.registers?.length ?? 4, one.before?.length ?? 0);
    const before = Array.from({ length: size }, (__, i) => Number(one.before?.[i] ?? 0));
    const unit = new MemoryUnit().set('holding', 0, ...before);
    const plc = await startPlc(unit);
    const bridge = await TestBridge.start(deviceMap(plc.port, { p: one.point }, { safety: { writes: 'enabled' } }));
    const client = await bridge.client();
    await until(() => readSamples(client, ['d.p']), isPolled);
    const outcome = await writePoint(client, 'd.p', one.write);
    const now = before.map((__, i) => unit.tables.holding.get(i));
    if (expected.registers !== undefined) {
      expect(outcome).toMatchObject({ status: 'written' });
      expect(now).toEqual(expected.registers.map(Number));
    } else {
      expect(outcome.status).toBe(expected.status);
      expect(outcome.reason).toContain(expected.because);
      expect(now).toEqual(before);
    }
  });
});

describe('what YAML 1.2 says of a map', () => {
  test.each([
    ['yaml-octal', '010', 10],
    ['yaml-hex', '0x64', 100],
  ])('%s: holding: %s asks for address %d', async (_, address, wanted) => {
    const plc = await startPlc(new MemoryUnit().set('holding', wanted, 77));
    plc.keepRequests = 10;
    const map = `connections: { plc: { type: modbus-tcp, host: 127.0.0.1, port: ${plc.port} } }\ndevices: { d: { connection: plc, points: { p: { holding: ${address} } } } }\n`;
    const client = await (await TestBridge.start(map)).client();
    const [sample] = await until(() => readSamples(client, ['d.p']), isPolled);
    expect(sample).toMatchObject({ value: 77, quality: 'good' });
    expect(plc.requests[0]?.pdu.readUInt16BE(1)).toBe(wanted);
  });

  test('yaml-off-label: off and on are labels, on the way up and on the way down', async () => {
    const unit = new MemoryUnit().set('holding', 0, 0);
    const plc = await startPlc(unit);
    const map = `connections: { plc: { type: modbus-tcp, host: 127.0.0.1, port: ${plc.port} } }\ndevices: { d: { connection: plc, poll_interval: 50ms, points: { p: { holding: 0, enum: { 0: off, 1: on }, write: {} } } } }\nsafety: { writes: enabled }\n`;
    const client = await (await TestBridge.start(map)).client();
    const [sample] = await until(() => readSamples(client, ['d.p']), isPolled);
    expect(sample?.value).toBe('off');
    expect(await writePoint(client, 'd.p', 'on')).toMatchObject({ status: 'written', before: 'off', after: 'on' });
    expect(unit.tables.holding.get(0)).toBe(1);
  });
});
