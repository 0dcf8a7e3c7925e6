import type { PayloadExpression } from '../../expression/payload.ts';
import type { Linear } from '../../model/decimal.ts';
import { integerLimits } from '../../model/integer.ts';
import type { Point } from '../../model/point.ts';
import type { Codec } from '../modbus/codec.ts';

/** How a value lies in bytes: in the payload itself, or in text that stands for bytes. */
export interface Binary {
  readonly encoding: 'binary' | 'hex' | 'base64';
  /** Byte at which the value starts. */
  readonly at: number;
  /** The payload is the value and nothing else. */
  readonly isAll: boolean;
  /** Bytes of it; undefined: all to the end. */
  readonly size: number | undefined;
  /** undefined: the bytes themselves are the value. */
  readonly codec: Codec | undefined;
}

/** How a message's content, or a metric's value, becomes a value with quality. */
export interface Conversion {
  readonly linear: Linear;
  readonly codes: ReadonlyMap<number, string> | undefined;
  readonly on: string | undefined;
  readonly off: string | undefined;
}

export interface Publication {
  readonly topic: string;
  readonly qos: 0 | 1 | 2;
  readonly retain: boolean;
  /** Over `value`, the raw one. */
  readonly payload: PayloadExpression | undefined;
  /** Where the device answers (MQTT 5.0, 4.10), and what its answer has to say. */
  readonly response: { readonly topic: string; readonly within: number; readonly ok: PayloadExpression | undefined } | undefined;
}

/** A point whose value comes with messages of a topic; without one it can only be written. */
export interface MqttPoint extends Point, Conversion {
  readonly topic: string | undefined;
  readonly expression: PayloadExpression | undefined;
  readonly sourceTime: PayloadExpression | undefined;
  readonly binary: Binary | undefined;
  readonly publish: Publication | undefined;
}

/** A point that a Sparkplug metric is. What the map leaves open, the birth certificate says. */
export interface MetricPoint extends Point, Conversion {
  readonly metric: string;
  /** Whether the type is the map's own. */
  readonly typed: boolean;
}

export const isMetric = (point: Point): point is MetricPoint => 'metric' in point;

/** The types that a payload of text or JSON can have. */
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

const WHOLE_LIMITS: ReadonlyMap<string, readonly [bigint, bigint]> = new Map(
  [8, 16, 32, 64].flatMap(bits => [
    [`int${bits}`, integerLimits(bits, true)],
    [`uint${bits}`, integerLimits(bits, false)],
  ]),
);

/** Lowest and highest whole number of a type; undefined for what is none. */
export const wholeLimits = (type: string): readonly [bigint, bigint] | undefined => WHOLE_LIMITS.get(type);
