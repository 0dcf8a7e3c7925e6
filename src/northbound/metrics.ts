import type { MetricType, MetricValue, OutgoingMetric } from '../drivers/mqtt/sparkplug/payload.ts';
import type { Point } from '../model/point.ts';
import type { Quality, Sample } from '../model/sample.ts';
import { toJson, type Value } from '../model/value.ts';

/** OPC UA's quality as Sparkplug hosts read it. */
const QUALITIES: Readonly<Record<Quality, number>> = { good: 192, uncertain: 500, bad: 0 };

/** A sample that waits for the broker, as it lies on the disk. */
export interface Stored {
  readonly device: string;
  readonly metric: string;
  readonly type: MetricType;
  readonly value: string | number | boolean | null;
  readonly quality: Quality;
  readonly wall: number;
}

/** The data type that holds every value that the point can show. */
function typeOf({ type, value }: Point): MetricType {
  switch (value.kind) {
    case 'bool':
      return 'bool';
    case 'number':
      if (!value.integer) return 'float64';
      return type === 'uint64' ? 'uint64' : 'int64';
    case 'time':
      return 'unix_ms';
    case 'bytes':
      return 'bytes';
    default:
      return 'string';
  }
}

function metricValue(type: MetricType, value: Value): MetricValue | null {
  if (value === null) return null;
  if (typeof value === 'object') return value.join(', ');
  if (type === 'unix_ms') return Date.parse(String(value));
  if (type === 'float64') return Number(value);
  if (type === 'int64' || type === 'uint64') return BigInt(value);
  return value;
}

/** A sample as data. */
export function metricOf({ point, value, quality, wall }: Sample): OutgoingMetric {
  const type = typeOf(point);
  return {
    ...{ name: point.id, type, timestamp: wall },
    value: metricValue(type, value),
    properties: { Quality: { type: 'int32', value: QUALITIES[quality] } },
  };
}

/** A sample in a birth certificate: with what its point is. */
export function birthMetricOf(sample: Sample): OutgoingMetric {
  const { unit, range } = sample.point;
  const metric = metricOf(sample);
  return {
    ...metric,
    properties: {
      ...metric.properties,
      ...(unit !== undefined && { engUnit: { type: 'string' as const, value: unit } }),
      ...(range !== undefined && {
        engLow: { type: 'float64' as const, value: range[0] },
        engHigh: { type: 'float64' as const, value: range[1] },
      }),
    },
  };
}

/** A sample for later. */
export function storedOf({ point, value, quality, wall }: Sample): Stored {
  const type = typeOf(point);
  const said = metricValue(type, value);
  return {
    device: point.device,
    metric: point.id,
    type,
    value: said === null ? null : (toJson(said) as string | number | boolean),
    quality,
    wall,
  };
}

/** What was stored is of the past now, and says so (Sparkplug 3.0, 6.4.17). */
export function historicalMetricOf({ metric, type, value, quality, wall }: Stored): OutgoingMetric {
  const isWide = type === 'int64' || type === 'uint64';
  return {
    ...{ name: metric, type, timestamp: wall, isHistorical: true },
    value: value !== null && isWide ? BigInt(value) : value,
    properties: { Quality: { type: 'int32', value: QUALITIES[quality] } },
  };
}
