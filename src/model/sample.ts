import type { Point } from './point.ts';
import { asNumber, type JsonValue, sameValue, toJson, type Value } from './value.ts';

/** OPC UA's three classes of quality (OPC 10000-8, 6.3). */
export type Quality = 'good' | 'uncertain' | 'bad';

/** Why a sample is not good: a closed list, part of the contract towards clients. */
export type Reason =
  | 'not_available'
  | 'out_of_range'
  | 'stale'
  | 'no_connection'
  | 'timeout'
  | 'exception'
  | 'decode_error'
  | 'offline'
  | 'initialising';

export interface ExceptionInfo {
  readonly code: number;
  readonly name: string;
}

/**
 * One reading of one point. `at` is the monotonic clock in milliseconds (ages are taken from it, not from the time of day),
 * `wall` the time of day in milliseconds since 1970, which only labels.
 */
export interface Sample {
  readonly point: Point;
  readonly value: Value;
  readonly quality: Quality;
  readonly reason?: Reason;
  readonly exception?: ExceptionInfo;
  readonly at: number;
  readonly wall: number;
  /** Where the source itself says when: that moment on the monotonic clock, from which the age is taken. */
  readonly sourceAt?: number;
  readonly lastGood?: { readonly value: Value; readonly wall: number };
}

/** What a reading says before it is known whose and when: the result of decoding. */
export type Reading = Pick<Sample, 'value' | 'quality' | 'reason' | 'exception'>;

export const good = (value: Value): Reading => ({ value, quality: 'good' });
export const uncertain = (value: Value, reason: Reason): Reading => ({ value, quality: 'uncertain', reason });
/** A bad reading never carries a number. */
export const bad = (reason: Reason, exception?: ExceptionInfo): Reading =>
  exception === undefined ? { value: null, quality: 'bad', reason } : { value: null, quality: 'bad', reason, exception };

export function sampleOf(point: Point, reading: Reading, at = performance.now(), wall = Date.now()): Sample {
  return { point, ...reading, at, wall };
}

/** The same, of a source that says when: one whose clock is ahead is not younger than what it sent. @param wall RFC 3339's moment in ms */
export function sampleFrom(point: Point, reading: Reading, wall: number): Sample {
  const at = performance.now();
  return { ...sampleOf(point, reading, at, wall), sourceAt: at - Math.max(0, Date.now() - wall) };
}

/** Milliseconds since the value was measured or came. */
export const ageOf = (sample: Sample, now: number): number => now - (sample.sourceAt ?? sample.at);

/** The sample, doubted where it has grown too old. */
export function aged(sample: Sample, now: number): Sample {
  if (sample.quality !== 'good' || ageOf(sample, now) <= sample.point.staleAfter) return sample;
  return { ...sample, quality: 'uncertain', reason: 'stale' };
}

/** Whether a value has moved by more than the point's deadband. @param from what was told or seen: percentages are of it where the point has no range */
export function hasLeftDeadband({ deadband, range }: Point, from: Value, to: Value): boolean {
  if (sameValue(from, to)) return false;
  const [before, now] = [asNumber(from), asNumber(to)];
  if (before === undefined || now === undefined) return true;
  const least =
    'absolute' in deadband ? deadband.absolute : (deadband.percent / 100) * (range === undefined ? Math.abs(before) : range[1] - range[0]);
  // Counters beyond 2^53 differ although their doubles do not.
  if (least === 0) return true;
  // 20.3 - 20.1 is a hair less than 0.2: float noise decides nothing.
  return Math.abs(now - before) > least * (1 + 1e-9);
}

/** A sample as clients see it. */
export interface PublicSample {
  readonly point: string;
  readonly value: JsonValue;
  readonly unit?: string;
  readonly quality: Quality;
  readonly reason?: Reason;
  readonly exception?: ExceptionInfo;
  readonly timestamp: string;
  readonly age_ms: number;
  readonly last_good?: { readonly value: JsonValue; readonly timestamp: string };
}

export function present(sample: Sample, now = performance.now()): PublicSample {
  return {
    point: sample.point.name,
    value: toJson(sample.value),
    ...(sample.point.unit !== undefined && { unit: sample.point.unit }),
    quality: sample.quality,
    ...(sample.reason !== undefined && { reason: sample.reason }),
    ...(sample.exception !== undefined && { exception: sample.exception }),
    timestamp: new Date(sample.wall).toISOString(),
    age_ms: Math.max(0, Math.round(ageOf(sample, now))),
    ...(sample.quality === 'bad' &&
      sample.lastGood !== undefined && {
        last_good: { value: toJson(sample.lastGood.value), timestamp: new Date(sample.lastGood.wall).toISOString() },
      }),
  };
}
