import type { JsonSchema } from '../../model/json-schema.ts';
import type { Point, ValueKind, WriteRule } from '../../model/point.ts';
import type { Table } from './address.ts';
import type { Codec } from './codec.ts';

/** A point with its place in a device's tables. */
export interface ModbusPoint extends Point {
  readonly table: Table;
  /** On the wire, from 0. */
  readonly address: number;
  /** Registers, or bits in a bit table. */
  readonly registers: number;
  /** The SunSpec model that the address counts from. */
  readonly model?: number;
  readonly codec: Codec;
  readonly scaleFrom?: string;
  /** The point that holds the scale factor. */
  readonly factor?: ModbusPoint;
  readonly writeFunction: 'auto' | 'single' | 'multiple';
}

const is64 = (type: string): boolean => type === 'int64' || type === 'uint64';

/** What a client may write: limits of the map where it has them, else those of the type. */
export function writeSchemaOf(value: ValueKind, codec: Codec, rule: WriteRule): JsonSchema {
  switch (value.kind) {
    case 'bool':
      return { type: 'boolean' };
    case 'enum':
      return { type: 'string', enum: value.labels };
    case 'flags':
      return { type: 'array', items: { type: 'string' }, uniqueItems: true, description: `of ${value.labels.join(', ')}` };
    case 'text':
      return { type: 'string', maxLength: codec.spec.length };
    case 'bytes':
      return { type: 'string', pattern: `^[0-9a-fA-F]{${(codec.spec.length ?? 0) * 2}}$`, description: 'hexadecimal digits' };
    case 'time':
      return { type: 'string', format: 'date-time', description: 'RFC 3339, such as 2026-01-31T08:00:00Z' };
    case 'number': {
      const limits = codec.isFloat ? undefined : codec.limits;
      const wide = is64(codec.spec.type);
      const bound = (given: number | undefined, end: number | bigint | string | undefined): number | undefined =>
        given ?? (typeof end === 'number' && !codec.spec.scaled ? end : undefined);
      const minimum = bound(rule.min, limits?.[0]);
      const maximum = bound(rule.max, limits?.[1]);
      const step = codec.spec.scaled ? undefined : codec.step;
      return {
        type: wide ? ['number', 'string'] : value.integer ? 'integer' : 'number',
        ...(minimum !== undefined && { minimum }),
        ...(maximum !== undefined && { maximum }),
        ...(step !== undefined && step !== 1 && { multipleOf: step }),
      };
    }
  }
}
