import type { PayloadExpression } from '../../expression/payload.ts';
import type { Linear } from '../../model/decimal.ts';
import { integerLimits } from '../../model/integer.ts';
import type { Point } from '../../model/point.ts';

/** A point whose value comes with messages of a topic. */
export interface MqttPoint extends Point {
  readonly topic: string;
  readonly expression: PayloadExpression | undefined;
  readonly on: string | undefined;
  readonly off: string | undefined;
  readonly linear: Linear;
  readonly codes: ReadonlyMap<number, string> | undefined;
  readonly publish: { readonly topic: string; readonly qos: 0 | 1 | 2; readonly retain: boolean } | undefined;
}

/** The types that a payload can have. */
export const MQTT_TYPES = [
  'bool',
  'int8',
  'uint8',
  'int16',
  'uint16',
  'int32',
  'uint32',
  'int64',
  'uint64',
  'float32',
  'float64',
  'string',
] as const;
export type MqttType = (typeof MQTT_TYPES)[number];

/** Lowest and highest whole number of a type; undefined for what is none. */
export function wholeLimits(type: string): readonly [bigint, bigint] | undefined {
  const match = /^(u?)int(\d+)$/.exec(type);
  return match === null ? undefined : integerLimits(Number(match[2]), match[1] === '');
}
