import type { DeviceEntry } from '../../../model/connection.ts';
import { Linear } from '../../../model/decimal.ts';
import { parseDuration } from '../../../model/duration.ts';
import { TransportError } from '../../../model/errors.ts';
import type { Point } from '../../../model/point.ts';
import { bad, good, type Reading, type Sample, sampleFrom, sampleOf, uncertain } from '../../../model/sample.ts';
import { escapeControls } from '../../../model/text.ts';
import type { Value } from '../../../model/value.ts';
import { Refusal, type WriteReceipt } from '../../../model/write.ts';
import type { DeviceStatus } from '../../driver.ts';
import { DATA_TYPES, kindOfFamily } from '../../modbus/types.ts';
import { convert, rawOf } from '../codec.ts';
import { type MetricPoint, wholeLimits } from '../point.ts';
import type { SparkplugAddress } from './address.ts';
import type { EdgeNode, Follower, NamedMetric } from './edge-node.ts';
import type { MetricType } from './payload.ts';

/** Points that a birth certificate may bring where the map names none. */
const MAX_LEARNED = 5000;
/** What the protocol itself keeps among the metrics. */
const OWN_METRICS = /^(bdSeq$|Node Control\/|Device Control\/)/;
const UNIT_KEYS = ['engUnit', 'engUnits', 'unit', 'units'];
const RANGE_KEYS = [
  ['engLow', 'engHigh'],
  ['min', 'max'],
] as const;

/** A Sparkplug B device, or an edge node's own metrics: what a birth certificate brings become points. */
export class SparkplugDevice implements Follower {
  readonly device: string | undefined;
  private readonly name: string;
  private readonly entry: DeviceEntry;
  private readonly node: EdgeNode;
  private readonly accept: (samples: readonly Sample[]) => void;
  private readonly learn: (device: string, points: readonly Point[]) => void;
  /** By the name of the metric. */
  private readonly points = new Map<string, MetricPoint>();
  private readonly types = new Map<string, MetricType>();
  private readonly latest = new Map<string, Sample>();
  private readonly learnsAll: boolean;
  private state: 'starting' | 'polling' | 'lost' = 'starting';
  private since = Date.now();
  private messages = 0;

  constructor(
    entry: DeviceEntry,
    { node, address }: { readonly node: EdgeNode; readonly address: SparkplugAddress },
    accept: (samples: readonly Sample[]) => void,
    learn: (device: string, points: readonly Point[]) => void,
  ) {
    this.entry = entry;
    this.name = entry.name;
    this.device = address.device;
    this.node = node;
    this.accept = accept;
    this.learn = learn;
    for (const point of entry.points as readonly MetricPoint[]) this.points.set(point.metric, point);
    this.learnsAll = this.points.size === 0;
    node.follow(this);
  }

  onStart(): void {}

  onConnected(): void {
    if (this.state !== 'starting') this.all(bad('initialising'));
  }

  onLost(): void {
    this.enter('lost');
    this.all(bad('no_connection'));
  }

  onBirth(metrics: readonly NamedMetric[], at: number | undefined): void {
    this.enter('polling');
    this.messages++;
    this.types.clear();
    const brought = new Set<string>();
    const learned: MetricPoint[] = [];
    for (const metric of metrics) {
      if (metric.type === undefined) continue;
      const known = this.points.get(metric.name);
      if (known === undefined && (!this.learnsAll || OWN_METRICS.test(metric.name) || this.points.size >= MAX_LEARNED)) continue;
      const point = completed(known ?? this.newPoint(metric.name), metric, metric.type);
      brought.add(metric.name);
      this.points.set(metric.name, point);
      this.types.set(metric.name, metric.type);
      if (point !== known) learned.push(point);
    }
    if (learned.length > 0) this.learn(this.name, learned);
    this.take(metrics, at, false);
    // A point that the device no longer has is not what it was.
    const gone = [...this.points.values()].filter(point => !brought.has(point.metric));
    this.tell(gone.map(point => sampleOf(point, bad('not_available'))));
  }

  onData(metrics: readonly NamedMetric[], at: number | undefined, doubtful: boolean): void {
    this.messages++;
    this.take(metrics, at, doubtful);
  }

  onDeath(): void {
    this.enter('lost');
    this.all(bad('offline'));
  }

  onDoubt(): void {
    this.tell(
      [...this.latest.values()]
        .filter(sample => sample.quality === 'good')
        .map(sample => ({ ...sample, ...uncertain(sample.value, 'stale'), at: performance.now() })),
    );
  }

  status(connection: string, connected: boolean): DeviceStatus {
    return {
      name: this.name,
      connection,
      state: connected ? this.state : 'lost',
      since: new Date(this.since).toISOString(),
      cycles: this.messages,
      late_cycles: 0,
      plan: { requests: 0, registers: 0, unused_registers: 0, load_percent: 0 },
    };
  }

  /** @throws TransportError where the device is not there */
  async write(point: MetricPoint, value: Value, approve: (wire: readonly string[]) => Promise<boolean>): Promise<WriteReceipt | undefined> {
    const { metric } = point;
    const type = this.types.get(metric);
    if (type === undefined || !this.node.isBorn(this.device))
      throw new TransportError('no_connection', 'the device is not there: it has sent no birth certificate', false);
    const raw = rawOf(point, value);
    const limits = wholeLimits(type);
    const isWhole = typeof raw === 'bigint' || Number.isInteger(raw);
    if (limits !== undefined && (!isWhole || BigInt(raw) < limits[0] || BigInt(raw) > limits[1]))
      throw new Refusal('type', `the device says that ${metric} is ${type}, which ${String(raw)} does not fit`);
    if (type === 'bool' && typeof raw !== 'boolean') throw new Refusal('type', `the device says that ${metric} is true or false`);
    const wire = [`${this.node.commandTopic(this.device)} ${metric} = ${String(raw)}`];
    if (!(await approve(wire))) return undefined;
    await this.node.command(this.device, { name: metric, type, value: raw, timestamp: Date.now() });
    return { wire };
  }

  private take(metrics: readonly NamedMetric[], at: number | undefined, doubtful: boolean): void {
    const samples = metrics.flatMap(metric => {
      const point = this.points.get(metric.name);
      const type = this.types.get(metric.name);
      // Values of the past are history; they never become the present one.
      if (point === undefined || type === undefined || metric.isHistorical) return [];
      const reading = readingOf(point, metric, type);
      return sampleAt(point, doubtful && reading.quality === 'good' ? uncertain(reading.value, 'stale') : reading, metric.timestamp ?? at);
    });
    this.tell(samples);
  }

  private all(reading: Reading): void {
    this.tell([...this.points.values()].map(point => sampleOf(point, reading)));
  }

  private tell(samples: readonly Sample[]): void {
    for (const sample of samples) this.latest.set(sample.point.name, sample);
    if (samples.length > 0) this.accept(samples);
  }

  private newPoint(metric: string): MetricPoint {
    const taken = new Set([...this.points.values()].map(point => point.id));
    const base = idOf(metric);
    let id = base;
    for (let i = 2; taken.has(id); i++) id = `${base.slice(0, 44)}_${i}`;
    return {
      name: `${this.name}.${id}`,
      device: this.name,
      id,
      uri: `plant://${this.name}/${id}`,
      description: escapeControls(`Sparkplug metric ${metric}`),
      type: 'unknown',
      value: { kind: 'number', integer: false },
      deadband: { absolute: 0 },
      pollInterval: 1000,
      staleAfter: parseDuration(this.entry.raw.stale_after) ?? Number.POSITIVE_INFINITY,
      hidden: false,
      metric,
      typed: false,
      linear: new Linear(),
      codes: undefined,
      on: undefined,
      off: undefined,
    };
  }

  private enter(state: SparkplugDevice['state']): void {
    if (this.state === state) return;
    this.state = state;
    this.since = Date.now();
  }
}

/** A name as points have them: `Inputs/Flow 1` is `inputs_flow_1`. */
function idOf(metric: string): string {
  const id = metric
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '');
  return (/^[a-z]/.test(id) ? id : `m_${id}`).slice(0, 48).replace(/_+$/, '');
}

/** The point with what the map left open: its type, unit and range. */
function completed(point: MetricPoint, metric: NamedMetric, type: MetricType): MetricPoint {
  const said = (keys: readonly string[]): string | undefined => {
    const value = keys.map(key => metric.properties.get(key)).find(one => typeof one === 'string' && one !== '');
    return value === undefined ? undefined : escapeControls(String(value)).slice(0, 40);
  };
  const unit = point.unit ?? said(UNIT_KEYS);
  const isNumber = /^(u?int|float)/.test(type);
  const range = point.range ?? (isNumber && (point.typed ? point.value.kind === 'number' : true) ? rangeOf(metric) : undefined);
  const typing = point.typed ? {} : { type, value: kindOfFamily(DATA_TYPES[type].family, true) };
  const same = unit === point.unit && sameRange(range, point.range) && (point.typed || point.type === type);
  if (same) return point;
  return Object.freeze({
    ...point,
    ...typing,
    ...(unit !== undefined && { unit }),
    ...(range !== undefined && { range }),
  });
}

const sameRange = (a: MetricPoint['range'], b: MetricPoint['range']): boolean => a?.[0] === b?.[0] && a?.[1] === b?.[1];

function rangeOf({ properties }: NamedMetric): readonly [number, number] | undefined {
  for (const [low, high] of RANGE_KEYS) {
    const ends = [properties.get(low), properties.get(high)].map(Number);
    if (ends.every(Number.isFinite) && properties.has(low) && properties.has(high) && Number(ends[0]) < Number(ends[1]))
      return [Number(ends[0]), Number(ends[1])];
  }
  return undefined;
}

/** OPC UA's quality of a value, as edge nodes send it in the property `Quality`: 192 good, 500 stale, 0 bad. */
const QUALITY_STALE = 500;

function readingOf(point: MetricPoint, metric: NamedMetric, type: MetricType): Reading {
  if (metric.isNull) return bad('not_available');
  const value = metric.valueAs(type);
  if (value === undefined) return bad('decode_error');
  const quality = metric.properties.get('Quality') ?? metric.properties.get('quality');
  if (quality === 0) return bad('not_available');
  const reading = type === 'bytes' ? good(value) : type === 'unix_ms' ? momentOf(Number(value)) : convert(point, value);
  return quality === QUALITY_STALE && reading.quality === 'good' ? uncertain(reading.value, 'stale') : reading;
}

function momentOf(ms: number): Reading {
  return Math.abs(ms) <= 8.64e15 ? good(new Date(ms).toISOString()) : bad('decode_error');
}

function sampleAt(point: MetricPoint, reading: Reading, wall: number | undefined): Sample {
  return wall === undefined || wall <= 0 || wall > 8.64e15 ? sampleOf(point, reading) : sampleFrom(point, reading, wall);
}
