import { parseDuration } from '../../model/duration.ts';
import { checkNumbers, checkWriteLimits, commonOf, writeRule, writeSchemaOf } from '../../model/map-values.ts';
import type { Point, ValueKind, WriteRule } from '../../model/point.ts';
import type { ConfigPath, DeviceInput, Protocol, RawMap } from '../../model/protocol.ts';
import type { Value } from '../../model/value.ts';
import { type Address, isBitTable, parseModicon, parseRange, type Range, TABLE_NAMES, TABLES } from './address.ts';
import { Codec, invalidPatterns } from './codec.ts';
import { endpointOf } from './endpoint.ts';
import { CONNECTIONS, DEVICE_PROPERTIES, POINT_PROPERTIES, WRITE_PROPERTIES } from './map-schema.ts';
import { type ModbusPoint, numberSchemaOf } from './point.ts';
import { DATA_TYPES, type DataType, ENCODINGS, type Encoding, kindOfFamily, type Order, type TypeName } from './types.ts';

export const modbusProtocol: Protocol = {
  connections: CONNECTIONS,
  endpoint: connection => endpointOf(String(connection.type), connection),
  deviceProperties: DEVICE_PROPERTIES,
  pointSources: ['coil', 'discrete', 'input', 'holding', 'register'],
  pointProperties: POINT_PROPERTIES,
  writeProperties: WRITE_PROPERTIES,
  compile: compileDevice,
};

/** What of a device's entry its points need. */
interface DeviceFrame {
  readonly input: DeviceInput;
  readonly base: 0 | 1;
  readonly order: Order;
  readonly maxRegisters: number;
  readonly maxGap: number | undefined;
  readonly unreadable: readonly Range[];
  readonly protected: readonly Range[];
}

function compileDevice(input: DeviceInput): readonly Point[] {
  const { raw } = input;
  const base = raw.addressing === 'one_based' ? 1 : 0;
  const ranges = (key: string): Range[] =>
    ((raw[key] ?? []) as unknown[]).flatMap((text, i) => {
      if (typeof text !== 'string') return [];
      const range = parseRange(text, base);
      if (range === undefined)
        input.report(
          [...input.path, key, i],
          `${text} is no range of addresses; expected lowest-highest within ${base} to ${65535 + base}`,
        );
      return range ?? [];
    });
  const frame: DeviceFrame = {
    input,
    base,
    order: (raw.order ?? 'ABCD') as Order,
    maxRegisters: Number(raw.max_registers_per_read ?? 125),
    maxGap: typeof raw.max_gap === 'number' ? raw.max_gap : undefined,
    unreadable: ranges('unreadable'),
    protected: ranges('protected'),
  };
  const points = new Map<string, ModbusPoint>();
  for (const [id, entry] of Object.entries((raw.points ?? {}) as Record<string, RawMap>)) {
    const point = compilePoint(frame, id, entry ?? {});
    if (point !== undefined) points.set(id, point);
  }
  return linkFactors(frame, points);
}

function compilePoint(frame: DeviceFrame, id: string, raw: RawMap): ModbusPoint | undefined {
  const { input } = frame;
  const path: ConfigPath = [...input.path, 'points', id];
  let sound = true;
  const report = (message: string, ...keys: string[]): void => {
    sound = false;
    input.report([...path, ...keys], message);
  };
  const place = addressOf(frame, raw, report);
  if (place === undefined) return undefined;
  const bits = isBitTable(place.table);
  const type = (raw.type ?? (bits || raw.bit !== undefined ? 'bool' : 'uint16')) as TypeName;
  const data: DataType = DATA_TYPES[type];
  const text = data.family === 'string' || data.family === 'bytes';
  const length = raw.length as number | undefined;

  if (bits && type !== 'bool') report(`a ${TABLE_NAMES[place.table]} is one bit: its type is bool, not ${type}`, 'type');
  if (bits && raw.bit !== undefined) report(`a ${TABLE_NAMES[place.table]} is one bit already`, 'bit');
  if (!bits && type === 'bool' && raw.bit === undefined) report('a bool in a register needs `bit`, the number of its bit', 'type');
  if (raw.model !== undefined && place.table !== 'holding') report('a SunSpec model lies in holding registers', 'model');
  if (raw.bit !== undefined && type !== 'bool') report(`one bit has the type bool, not ${type}`, 'type');
  if (text && length === undefined) report(`a point of type ${type} needs its length in bytes`, 'type');
  if (!text && length !== undefined) report(`only string and bytes have a length; the width of ${type} is fixed`, 'length');
  if (raw.encoding !== undefined && type !== 'string') report(`only a string has an encoding, not ${type}`, 'encoding');
  if (raw.encoding !== undefined && !ENCODINGS.includes(raw.encoding as Encoding))
    report(`${String(raw.encoding)} goes with payloads; a string in registers is ${ENCODINGS.join(', ')}`, 'encoding');
  if (raw.byte !== undefined && !type.endsWith('int8')) report(`only 8-bit types take a byte of the register, not ${type}`, 'byte');

  const registers = data.registers ?? Math.ceil((length ?? 2) / 2);
  const last = place.address + registers - 1;
  if (last > 65535) report(`the point ends past address 65535 (it takes ${registers} registers from ${place.address})`, sourceKey(raw));
  if (!bits && registers > frame.maxRegisters) {
    report(
      `the point takes ${registers} registers, but one read takes at most ${frame.maxRegisters}; a value is never put together from two reads`,
      text ? 'length' : 'type',
    );
  }
  const hit = (range: Range): boolean => range.table === place.table && range.from <= last && range.to >= place.address;
  if (frame.unreadable.some(hit)) report('the point lies in a range that the device declares unreadable', sourceKey(raw));

  const numeric = data.family === 'integer' || data.family === 'float' || data.family === 'bcd';
  const labelled = raw.enum !== undefined || raw.flags !== undefined;
  for (const key of ['scale', 'offset', 'scale_from', 'range', 'deadband'] as const) {
    if (raw[key] !== undefined && (!numeric || labelled))
      report(`${key} needs a number; ${labelled ? 'a labelled point' : `type ${type}`} is none`, key);
  }
  for (const key of ['enum', 'flags'] as const)
    if (raw[key] !== undefined && data.family !== 'integer') report(`${key} needs a whole-number type, not ${type}`, key);
  if (raw.enum !== undefined && raw.flags !== undefined) report('a point has enum or flags, not both', 'flags');
  checkNumbers(raw, report);
  if (raw.scale_from !== undefined && (raw.scale !== undefined || raw.offset !== undefined))
    report('the scale comes from scale_from; scale and offset do not go with it', 'scale_from');
  if (raw.invalid !== undefined && (data.family === 'bool' || text))
    report(`invalid raw values go with numbers and times, not with ${type}`, 'invalid');
  const range = raw.range as readonly [number, number] | undefined;

  const bitsWide = type.endsWith('int8') ? 8 : registers * 16;
  const codes = labelMap(raw.enum, code => BigInt(code));
  const flags = labelMap(raw.flags, Number);
  const [low, high] = (data.limits ?? [0, 0]).map(Number) as [number, number];
  for (const code of codes?.keys() ?? []) if (code < low || code > high) report(`${code} does not fit into ${type}`, 'enum', String(code));
  for (const bit of flags?.keys() ?? []) if (bit >= bitsWide) report(`${type} has the bits 0 to ${bitsWide - 1}`, 'flags', String(bit));
  for (const [key, map] of [
    ['enum', codes],
    ['flags', flags],
  ] as const) {
    if (map !== undefined && new Set<string>(map.values()).size < map.size) report('each label may stand once', key);
  }

  const explicitOrder = raw.order as Order | undefined;
  if (!bits && !text && registers === 1 && explicitOrder === 'CDAB')
    input.warn([...path, 'order'], 'CDAB swaps words, and this point has only one');
  const order = explicitOrder ?? (registers > 1 ? frame.order : 'ABCD');

  const pollInterval = parseDuration(raw.poll_interval ?? input.raw.poll_interval ?? '1s') ?? 1000;
  if (pollInterval < 10) report('a poll interval is at least 10ms', 'poll_interval');
  const codec = new Codec({
    type,
    order,
    registers,
    byte: raw.byte === 'high' ? 'high' : 'low',
    ...(raw.bit !== undefined && { bit: Number(raw.bit) }),
    ...(length !== undefined && { length }),
    encoding: (raw.encoding ?? 'ascii') as Encoding,
    scale: raw.scale === 0 ? 1 : Number(raw.scale ?? 1),
    offset: Number(raw.offset ?? 0),
    scaled: raw.scale_from !== undefined,
    invalid: ((raw.invalid ?? []) as (number | string)[]).flatMap(entry => invalidPatterns(entry, bitsWide)),
    ...(range !== undefined && { range }),
    ...(codes !== undefined && { enum: codes }),
    ...(flags !== undefined && { flags }),
    ...(raw.unit !== undefined && { unit: String(raw.unit) }),
  });
  const value = kindOf(
    type,
    codes,
    flags,
    Number.isInteger(raw.scale ?? 1) && Number.isInteger(raw.offset ?? 0) && raw.scale_from === undefined,
  );
  const write = raw.write === undefined ? undefined : ((raw.write ?? {}) as RawMap);
  const rule = write === undefined ? undefined : writeRule(write);
  if (write !== undefined && rule !== undefined) checkWrite(frame, place, registers, value, write, rule, raw, report);
  if (rule !== undefined && frame.protected.some(hit))
    report('the point lies in a protected range of its device, which is never written', 'write');
  if (!sound) return undefined;

  return {
    ...commonOf(input, id, raw),
    type,
    value,
    ...(rule !== undefined && {
      write: rule,
      writeSchema: writeSchemaOf(value, () => numberSchemaOf(value.kind === 'number' && value.integer, codec, rule), length),
    }),
    ...(rule !== undefined && raw.scale_from === undefined && { canonical: (candidate: Value) => codec.canonical(candidate) }),
    pollInterval,
    staleAfter: staleAfter(raw, input.raw, pollInterval),
    table: place.table,
    address: place.address,
    registers: bits ? 1 : registers,
    ...(raw.model !== undefined && { model: Number(raw.model) }),
    codec,
    ...(raw.scale_from !== undefined && { scaleFrom: String(raw.scale_from) }),
    writeFunction: (write?.function ?? 'auto') as ModbusPoint['writeFunction'],
  };
}

function addressOf(frame: DeviceFrame, raw: RawMap, report: (message: string, ...keys: string[]) => void): Address | undefined {
  if (raw.register !== undefined) {
    const place = parseModicon(raw.register as number | string);
    if (typeof place !== 'string') return place;
    report(place, 'register');
    return undefined;
  }
  const table = TABLES.find(name => raw[name] !== undefined);
  if (table === undefined) return undefined;
  const address = Number(raw[table]) - frame.base;
  if (address >= 0 && address <= 65535) return { table, address };
  report(`addresses of this device count from ${frame.base} to ${65535 + frame.base}; got ${String(raw[table])}`, table);
  return undefined;
}

const sourceKey = (raw: RawMap): string => ['register', ...TABLES].find(key => raw[key] !== undefined) ?? 'register';

function labelMap<K>(raw: unknown, key: (text: string) => K): ReadonlyMap<K, string> | undefined {
  return raw === undefined ? undefined : new Map(Object.entries(raw as Record<string, string>).map(([code, label]) => [key(code), label]));
}

/** A point that is read more slowly than its device is not stale the sooner for it. */
function staleAfter(point: RawMap, device: RawMap, pollInterval: number): number {
  const own = parseDuration(point.stale_after);
  if (own !== undefined) return own;
  const ofDevice = parseDuration(device.stale_after) ?? 0;
  if (ofDevice === 0) return 3 * pollInterval;
  return point.poll_interval === undefined ? ofDevice : Math.max(ofDevice, 3 * pollInterval);
}

function kindOf(
  type: TypeName,
  codes: ReadonlyMap<bigint, string> | undefined,
  flags: ReadonlyMap<number, string> | undefined,
  whole: boolean,
): ValueKind {
  if (codes !== undefined) return { kind: 'enum', labels: [...codes.values()] };
  if (flags !== undefined) return { kind: 'flags', labels: [...flags].sort(([a], [b]) => a - b).map(([, label]) => label) };
  return kindOfFamily(DATA_TYPES[type].family, whole);
}

function checkWrite(
  frame: DeviceFrame,
  place: Address,
  registers: number,
  value: ValueKind,
  write: RawMap,
  rule: WriteRule,
  raw: RawMap,
  report: (message: string, ...keys: string[]) => void,
): void {
  if (place.table === 'input' || place.table === 'discrete') {
    report(`${place.table === 'input' ? 'an input register' : 'a discrete input'} can not be written`, 'write');
  }
  checkWriteLimits(write, rule, value, report);
  if (write.function === 'single' && registers > 1)
    report(
      `a value of ${registers} registers is written by one request, which the single-register function can not do`,
      'write',
      'function',
    );
  if (registers > 123) report('a write takes at most 123 registers', 'write');
  if (frame.input.raw.unit_id === 0 && raw.bit !== undefined && write.function === 'multiple')
    report('one bit is written by FC22', 'write', 'function');
}

/** Points whose scale another point holds: it must be there, be a plain whole number, and not itself be scaled. */
function linkFactors(frame: DeviceFrame, points: ReadonlyMap<string, ModbusPoint>): readonly ModbusPoint[] {
  const result: ModbusPoint[] = [];
  for (const point of points.values()) {
    const factor = point.scaleFrom === undefined ? undefined : points.get(point.scaleFrom);
    const path = [...frame.input.path, 'points', point.id, 'scale_from'];
    if (point.scaleFrom !== undefined && factor === undefined) {
      const known = Object.hasOwn((frame.input.raw.points ?? {}) as RawMap, point.scaleFrom);
      // A factor that is itself mistaken was reported already.
      if (!known) frame.input.report(path, `no point ${frame.input.name}.${point.scaleFrom}`);
      continue;
    }
    if (factor !== undefined && (factor.value.kind !== 'number' || !factor.value.integer || factor.scaleFrom !== undefined)) {
      frame.input.report(path, `${factor.name} is no whole number, so it can not be a scale factor`);
      continue;
    }
    if (factor !== undefined && isBitTable(factor.table)) continue;
    result.push(factor === undefined ? point : { ...point, factor });
  }
  return result.map(point => Object.freeze(point));
}
