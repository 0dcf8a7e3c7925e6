import { TokenBucket } from '../model/bucket.ts';
import { DAY } from '../model/duration.ts';
import type { Point } from '../model/point.ts';
import type { WriteHistory } from './gates.ts';

/** No limit of a day is higher than what is remembered of it. */
const MOST_OF_DAY = 100_000;

/** A token bucket for the whole bridge and the time of each point's last write. */
export class WriteRate implements WriteHistory {
  private readonly last = new Map<string, number>();
  private readonly days = new Map<string, readonly number[]>();
  private bucket: TokenBucket;

  constructor(perMinute: number) {
    this.bucket = new TokenBucket(perMinute, perMinute / 60_000);
  }

  /** From now on. */
  allow(perMinute: number): void {
    this.bucket = new TokenBucket(perMinute, perMinute / 60_000);
  }

  lastWrite(point: string): number | undefined {
    return this.last.get(point);
  }

  budget(): { left: number; wait: number } {
    const { left, wait } = this.bucket;
    return { left, wait };
  }

  ofDay(point: string): { count: number; wait: number } {
    const now = Date.now();
    const times = (this.days.get(point) ?? []).filter(at => now - at < DAY);
    this.days.set(point, times);
    return { count: times.length, wait: Math.max(0, (times[0] ?? now) + DAY - now) };
  }

  /** A request goes to the wire now. */
  note({ name, write }: Point): void {
    this.bucket.take();
    this.last.set(name, performance.now());
    if (write?.maxPerDay !== undefined) this.recall(name, Date.now());
  }

  /** A request went to the wire at that time, perhaps in an earlier run. Times come in order. */
  recall(point: string, wall: number): void {
    this.days.set(point, [...(this.days.get(point) ?? []), wall].slice(-MOST_OF_DAY));
  }
}
