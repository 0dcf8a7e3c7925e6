import type { ConnectionConfig, DeviceEntry } from '../../model/connection.ts';
import type { Reading } from '../../model/sample.ts';
import { isBitTable } from './address.ts';
import { Codec } from './codec.ts';
import { readerSettings } from './driver.ts';
import { planPoints, summarise } from './plan.ts';
import type { ModbusPoint } from './point.ts';
import { transportOf } from './transports.ts';
import { DATA_TYPES, ORDERS, type Order, TYPE_NAMES, type TypeName } from './types.ts';

/** One request of a plan, for people. */
interface PlannedRequest {
  readonly device: string;
  readonly unit: number;
  /** Milliseconds. */
  readonly interval: number;
  readonly table: string;
  readonly address: number;
  readonly count: number;
  readonly points: readonly string[];
}

export interface ConnectionPlan {
  readonly connection: string;
  readonly requests: readonly PlannedRequest[];
  readonly registers: number;
  readonly unused: number;
  /** Milliseconds that one reading of everything takes, by the cost of the wire. */
  readonly cycle: number;
  /** Share of the time that the wire is busy with polling. */
  readonly load: number;
}

/** What polling the devices of a connection asks for, before anything is learnt of them. */
export function describePlan(connection: ConnectionConfig, devices: readonly DeviceEntry[]): ConnectionPlan {
  const { cost } = transportOf(connection.type, connection.raw);
  const requests: PlannedRequest[] = [];
  let [registers, unused, cycle, load] = [0, 0, 0, 0];
  for (const device of devices) {
    const settings = readerSettings(device.name, device.raw, 0, connection.type);
    const points = device.points as readonly ModbusPoint[];
    for (const interval of [...new Set(points.map(point => point.pollInterval))].sort((a, b) => a - b)) {
      const blocks = planPoints(
        points.filter(point => point.pollInterval === interval),
        settings,
        cost,
        [],
      );
      const summary = summarise(blocks);
      registers += summary.registers;
      unused += summary.unused;
      for (const block of blocks) {
        const { request, unit } = isBitTable(block.table) ? cost.bits : cost.registers;
        const time = request + (block.end - block.start) * unit;
        cycle += time;
        load += time / interval;
        const names = [...new Set(block.spans.flatMap(part => part.points.map(point => point.name)))];
        requests.push({
          device: device.name,
          unit: settings.unit,
          interval,
          table: block.table,
          address: block.start,
          count: block.end - block.start,
          points: names,
        });
      }
    }
  }
  return { connection: connection.name, requests, registers, unused, cycle, load };
}

export interface DecodedAs {
  readonly type: string;
  /** By order; a single word knows only whether its bytes are swapped. */
  readonly values: Readonly<Partial<Record<Order, Reading>>>;
}

/** Every type and order that fits so many words, and what they would read as. */
export function decodeAll(words: readonly number[], scale: number): DecodedAs[] {
  const orders = words.length === 1 ? (['ABCD', 'BADC'] as const) : ORDERS;
  const registersOf = (type: TypeName): number => DATA_TYPES[type].registers ?? words.length;
  return TYPE_NAMES.filter(type => type !== 'bool' && registersOf(type) === words.length).flatMap((type): DecodedAs[] => {
    const read = (order: Order, byte: 'low' | 'high' = 'low'): Reading => codecFor(type, words.length, order, byte, scale).decode(words);
    if (type.endsWith('int8'))
      return (['low', 'high'] as const).map(byte => ({ type: `${type} ${byte}`, values: { ABCD: read('ABCD', byte) } }));
    return [{ type, values: Object.fromEntries(orders.map(order => [order, read(order)])) }];
  });
}

function codecFor(type: TypeName, registers: number, order: Order, byte: 'low' | 'high', scale: number): Codec {
  const { family, registers: fixed } = DATA_TYPES[type];
  const isNumber = family === 'integer' || family === 'float' || family === 'bcd';
  return new Codec({
    type,
    order,
    registers,
    byte,
    encoding: 'latin1',
    scale: isNumber ? scale : 1,
    offset: 0,
    scaled: false,
    invalid: [],
    ...(fixed === undefined && { length: registers * 2 }),
  });
}
