import type { JsonSchema } from '../../model/json-schema.ts';
import type { Point, WriteRule } from '../../model/point.ts';
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

/** A number that a client may write: limits of the map where it has them, else those of the type. */
export function numberSchemaOf(integer: boolean, codec: Codec, rule: WriteRule): JsonSchema {
  const limits = codec.isFloat ? undefined : codec.limits;
  const bound = (given: number | undefined, end: number | bigint | string | undefined): number | undefined =>
    given ?? (typeof end === 'number' && !codec.spec.scaled ? end : undefined);
  const minimum = bound(rule.min, limits?.[0]);
  const maximum = bound(rule.max, limits?.[1]);
  const step = codec.spec.scaled ? undefined : codec.step;
  return {
    type: is64(codec.spec.type) ? ['number', 'string'] : integer ? 'integer' : 'number',
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
    ...(step !== undefined && step !== 1 && { multipleOf: step }),
  };
}
