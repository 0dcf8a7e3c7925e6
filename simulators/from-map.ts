import type { ModbusPoint } from '../src/drivers/modbus/point.ts';
import { MemoryUnit } from './modbus-server.ts';

/** Where a simulated SunSpec map begins, and how long its models are. */
const SUNSPEC_BASE = 40_000;
const MODEL_LENGTHS: Readonly<Record<number, number>> = { 1: 66, 103: 50 };

/**
 * A unit that has just the addresses of these points: what a device of this map would answer. Each register holds a
 * small number of its own, text holds its point's name.
 */
export function unitFromMap(points: readonly ModbusPoint[]): MemoryUnit {
  const unit = new MemoryUnit();
  const models = [...new Set(points.flatMap(point => point.model ?? []))].sort((a, b) => a - b);
  const starts = new Map<number, number>();
  let next = SUNSPEC_BASE + 2;
  if (models.length > 0) unit.set('holding', SUNSPEC_BASE, 0x5375, 0x6e53);
  for (const model of models) {
    const length = MODEL_LENGTHS[model] ?? 60;
    starts.set(model, next);
    unit.set('holding', next, model, length, ...Array.from({ length }, () => 0));
    next += 2 + length;
  }
  if (models.length > 0) unit.set('holding', next, 0xffff, 0);
  for (const point of points) {
    const address = point.address + (point.model === undefined ? 0 : (starts.get(point.model) ?? 0));
    const isBit = point.table === 'coil' || point.table === 'discrete';
    const text = Buffer.alloc(point.registers * 2);
    text.write(point.id, 'latin1');
    const words = Array.from({ length: point.registers }, (_, i) => {
      if (isBit) return 1;
      if (point.value.kind === 'text') return text.readUInt16BE(i * 2);
      // A float of 1.5 in any order is a number; so is a small whole one.
      if (point.type === 'float32') return i === 0 ? 0x3fc0 : 0x3fc0;
      return i === point.registers - 1 ? 1 : 0;
    });
    unit.set(point.table, address, ...words);
  }
  return unit;
}
