import { gunzipSync, inflateSync } from 'node:zlib';
import proto from 'sparkplug-payload/lib/sparkplugPayloadProto.js';
import { shortest } from '../../../model/decimal.ts';

const { Payload } = proto.org.eclipse.tahu.protobuf;
type IMetric = Parameters<typeof Payload.Metric.create>[0] & object;

/** Sparkplug 3.0, 6.4.16: the data types of metrics that are a single value, and the point's type that each is. */
const TYPES = {
  1: 'int8',
  2: 'int16',
  3: 'int32',
  4: 'int64',
  5: 'uint8',
  6: 'uint16',
  7: 'uint32',
  8: 'uint64',
  9: 'float32',
  10: 'float64',
  11: 'bool',
  12: 'string',
  13: 'unix_ms',
  14: 'string',
  15: 'string',
  17: 'bytes',
} as const;
export type MetricType = (typeof TYPES)[keyof typeof TYPES];

/** The Sparkplug data type that carries a point's type. */
const DATATYPE: Readonly<Record<MetricType, number>> = {
  int8: 1,
  int16: 2,
  int32: 3,
  int64: 4,
  uint8: 5,
  uint16: 6,
  uint32: 7,
  uint64: 8,
  float32: 9,
  float64: 10,
  bool: 11,
  string: 12,
  unix_ms: 13,
  bytes: 17,
};

export type MetricValue = boolean | number | bigint | string;

/** One metric as it was sent; its value still as the protocol carries it, since only a birth certificate has its type. */
export interface Metric {
  readonly name: string | undefined;
  readonly alias: string | undefined;
  /** Milliseconds since 1970. */
  readonly timestamp: number | undefined;
  readonly type: MetricType | undefined;
  readonly isNull: boolean;
  readonly isHistorical: boolean;
  readonly properties: ReadonlyMap<string, MetricValue>;
  /** The value as one of this type; undefined where it is none. */
  valueAs(type: MetricType): MetricValue | undefined;
}

export interface SparkplugPayload {
  readonly seq: number | undefined;
  readonly timestamp: number | undefined;
  readonly metrics: readonly Metric[];
}

/** Metrics of one message that are looked at. */
const MAX_METRICS = 20_000;
const MAX_INFLATED = 16_777_216;
const COMPRESSED = 'SPBV1.0_COMPRESSED';

/** Values of whatever has the protocol's value fields: metrics and properties alike. */
interface Carrier {
  readonly intValue?: number | null;
  readonly longValue?: number | Wide | null;
  readonly floatValue?: number | null;
  readonly doubleValue?: number | null;
  readonly booleanValue?: boolean | null;
  readonly stringValue?: string | null;
  readonly bytesValue?: Uint8Array | null;
}

/** 64 bits in two halves, as the protobuf library has them. */
interface Wide {
  readonly low: number;
  readonly high: number;
  readonly unsigned: boolean;
}

/** @returns undefined where the bytes are no Sparkplug B payload */
export function decodeSparkplug(bytes: Buffer): SparkplugPayload | undefined {
  try {
    return decode(bytes, false);
  } catch {
    return undefined;
  }
}

function decode(bytes: Uint8Array, isInflated: boolean): SparkplugPayload {
  const payload = Payload.decode(bytes);
  const metrics = payload.metrics.slice(0, MAX_METRICS).map(metricOf);
  if (payload.uuid === COMPRESSED && !isInflated) {
    const algorithm = metrics.find(metric => metric.name === 'algorithm')?.valueAs('string');
    const inflate = String(algorithm ?? 'DEFLATE').toUpperCase() === 'GZIP' ? gunzipSync : inflateSync;
    return decode(inflate(payload.body, { maxOutputLength: MAX_INFLATED }), true);
  }
  return {
    seq: Object.hasOwn(payload, 'seq') ? Number(wide(payload.seq)) : undefined,
    timestamp: Object.hasOwn(payload, 'timestamp') ? Number(wide(payload.timestamp)) : undefined,
    metrics,
  };
}

function metricOf(metric: IMetric): Metric {
  const has = (key: string): boolean => Object.hasOwn(metric, key);
  const properties = new Map<string, MetricValue>();
  const { keys = [], values = [] } = metric.properties ?? {};
  for (const [i, key] of (keys ?? []).entries()) {
    const value = values?.[i];
    const said = value === undefined || value.isNull === true ? undefined : carried(value, TYPES[value.type as keyof typeof TYPES]);
    if (said !== undefined) properties.set(key, said);
  }
  return {
    name: has('name') ? (metric.name ?? undefined) : undefined,
    alias: has('alias') ? wide(metric.alias).toString() : undefined,
    timestamp: has('timestamp') ? Number(wide(metric.timestamp)) : undefined,
    type: TYPES[metric.datatype as keyof typeof TYPES],
    isNull: metric.isNull === true,
    isHistorical: metric.isHistorical === true,
    properties,
    valueAs: type => carried(metric, type),
  };
}

function carried(carrier: Carrier, type: MetricType | undefined): MetricValue | undefined {
  const has = (key: keyof Carrier): boolean => Object.hasOwn(carrier, key) && carrier[key] !== null;
  switch (type) {
    case 'float32':
    case 'float64':
      if (has('floatValue')) return shortest(Number(carrier.floatValue), 10, Math.fround);
      return has('doubleValue') ? Number(carrier.doubleValue) : undefined;
    case 'bool':
      return has('booleanValue') ? carrier.booleanValue === true : undefined;
    case 'string':
      return has('stringValue') ? String(carrier.stringValue) : undefined;
    case 'bytes':
      return has('bytesValue') ? Buffer.from(carrier.bytesValue ?? []).toString('hex') : undefined;
    case 'unix_ms':
      return has('longValue') ? Number(wide(carrier.longValue)) : undefined;
    case undefined:
      return undefined;
    default: {
      // Int8 to Int32 travel as the two's complement in 32 bits, UInt32 and the 64-bit types in 64 (6.4.16).
      const field = has('intValue') ? BigInt(carrier.intValue ?? 0) : has('longValue') ? wide(carrier.longValue) : undefined;
      if (field === undefined) return undefined;
      const bits = Number(/\d+$/.exec(type)?.[0]);
      const whole = type.startsWith('u') ? BigInt.asUintN(bits, field) : BigInt.asIntN(bits, field);
      return bits === 64 ? whole : Number(whole);
    }
  }
}

function wide(value: number | Wide | null | undefined): bigint {
  if (value === null || value === undefined) return 0n;
  if (typeof value === 'number') return BigInt(Math.trunc(value));
  return (BigInt(value.high >>> 0) << 32n) | BigInt(value.low >>> 0);
}

function halves(value: bigint): Wide {
  const bits = BigInt.asUintN(64, value);
  return { low: Number(bits & 0xffff_ffffn), high: Number(bits >> 32n), unsigned: true };
}

/** A metric to be sent. */
export interface OutgoingMetric {
  readonly name: string;
  readonly alias?: number;
  readonly type: MetricType;
  /** null: there is no value now. */
  readonly value: MetricValue | null;
  readonly timestamp: number;
  readonly isHistorical?: boolean;
  readonly properties?: Readonly<Record<string, { readonly type: MetricType; readonly value: MetricValue }>>;
}

export function encodeSparkplug({
  seq,
  timestamp,
  metrics,
}: {
  readonly seq?: number;
  readonly timestamp: number;
  readonly metrics: readonly OutgoingMetric[];
}): Buffer {
  const payload = Payload.create({
    timestamp: halves(BigInt(timestamp)) as never,
    ...(seq !== undefined && { seq }),
    metrics: metrics.map(metric => ({
      name: metric.name,
      ...(metric.alias !== undefined && { alias: metric.alias }),
      timestamp: halves(BigInt(Math.trunc(metric.timestamp))) as never,
      datatype: DATATYPE[metric.type],
      ...(metric.isHistorical === true && { isHistorical: true }),
      ...(metric.value === null ? { isNull: true } : (carry(metric.type, metric.value) as object)),
      ...(metric.properties !== undefined && {
        properties: {
          keys: Object.keys(metric.properties),
          values: Object.values(metric.properties).map(({ type, value }) => ({ type: DATATYPE[type], ...(carry(type, value) as object) })),
        },
      }),
    })),
  });
  return Buffer.from(Payload.encode(payload).finish());
}

function carry(type: MetricType, value: MetricValue): Carrier {
  switch (type) {
    case 'float32':
      return { floatValue: Number(value) };
    case 'float64':
      return { doubleValue: Number(value) };
    case 'bool':
      return { booleanValue: value === true };
    case 'string':
      return { stringValue: String(value) };
    case 'bytes':
      return { bytesValue: Buffer.from(String(value), 'hex') };
    case 'unix_ms':
    case 'uint32':
    case 'int64':
    case 'uint64':
      return { longValue: halves(BigInt(value)) };
    default:
      return { intValue: Number(value) >>> 0 };
  }
}
