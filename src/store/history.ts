import type { Point } from '../model/point.ts';
import type { Quality, Sample } from '../model/sample.ts';
import { sameValue, type Value } from '../model/value.ts';

/** A value and when it began to hold; it holds until the next. */
export interface Moment {
  /** Milliseconds since 1970. */
  readonly wall: number;
  readonly value: Value;
  readonly quality: Quality;
}

/** The past of one point, oldest first, in columns: a million samples are not a million objects. */
class Series {
  private walls: number[] = [];
  private values: Value[] = [];
  private qualities: Quality[] = [];
  private start = 0;
  /** Samples that are gone and still stand in the order of all. */
  owed = 0;

  get length(): number {
    return this.walls.length - this.start;
  }

  push(wall: number, value: Value, quality: Quality): void {
    // A source whose clock goes back does not turn the series round.
    const last = this.walls.at(-1);
    this.walls.push(last !== undefined && wall < last ? last : wall);
    this.values.push(value);
    this.qualities.push(quality);
  }

  dropOldest(): void {
    this.values[this.start] = null;
    this.start++;
    if (this.start < 1024 || this.start < this.walls.length / 2) return;
    this.walls = this.walls.slice(this.start);
    this.values = this.values.slice(this.start);
    this.qualities = this.qualities.slice(this.start);
    this.start = 0;
  }

  /** Whether this is what holds already. */
  ends(value: Value, quality: Quality): boolean {
    return this.length > 0 && this.qualities.at(-1) === quality && sameValue(this.values.at(-1) ?? null, value);
  }

  /** Whether an entry in the order of all stands for a sample that is gone; asked once for each entry, oldest first. */
  settle(): boolean {
    if (this.owed === 0) return false;
    this.owed--;
    return true;
  }

  /** When the second oldest began: before that, the oldest still says what was. */
  get secondOldest(): number | undefined {
    return this.walls[this.start + 1];
  }

  /** What held at `from`, and all that began up to `to`. */
  between(from: number, to: number): Moment[] {
    let [low, high] = [this.start, this.walls.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.walls[middle] ?? 0) <= from) low = middle + 1;
      else high = middle;
    }
    const moments: Moment[] = [];
    for (let i = Math.max(this.start, low - 1); i < this.walls.length; i++) {
      const wall = this.walls[i] ?? 0;
      if (wall > to) break;
      moments.push({ wall, value: this.values[i] ?? null, quality: this.qualities[i] ?? 'bad' });
    }
    return moments;
  }
}

/** The changes of all points within a span of time and a number of samples, whichever is reached first. */
export class History {
  private span: number;
  private maxSamples: number;
  private readonly series = new Map<string, Series>();
  /** Whose sample is the oldest of all, the next oldest, and so on; with entries of samples that time has taken already. */
  private order: Series[] = [];
  private orderStart = 0;
  private count = 0;
  private readonly startedAt: number;

  /** @param keep milliseconds; 0, as no samples, keeps nothing */
  constructor(keep: number, maxSamples: number) {
    this.span = keep;
    this.maxSamples = maxSamples;
    this.startedAt = Date.now();
  }

  /** Milliseconds. */
  get keep(): number {
    return this.span;
  }

  /** From now on. */
  resize(keep: number, maxSamples: number): void {
    this.span = keep;
    this.maxSamples = maxSamples;
    while (this.count > maxSamples) this.dropOldestOfAll();
  }

  /** What a point was, that is gone or means something else now, is of no use. */
  forget(point: string): void {
    const series = this.series.get(point);
    if (series === undefined) return;
    this.series.delete(point);
    while (series.length > 0) this.drop(series);
  }

  get enabled(): boolean {
    return this.keep > 0 && this.maxSamples > 0;
  }

  /** Samples that are held. */
  get size(): number {
    return this.count;
  }

  append({ point, wall, value, quality }: Sample): void {
    if (!this.enabled) return;
    const series = this.series.get(point.name) ?? new Series();
    this.series.set(point.name, series);
    // Another reason for having no value is no other value.
    if (series.ends(value, quality)) return;
    series.push(wall, value, quality);
    this.order.push(series);
    this.count++;
    const oldest = Date.now() - this.keep;
    // The one before the span still says what held as it began.
    while ((series.secondOldest ?? Number.POSITIVE_INFINITY) <= oldest) this.drop(series);
    if (this.order.length - this.orderStart > this.count * 2 + 1024) {
      this.order = this.order.slice(this.orderStart).filter(one => !one.settle());
      this.orderStart = 0;
    }
    while (this.count > this.maxSamples) this.dropOldestOfAll();
  }

  /** What held as the span began, and every change within it. Nothing is known from before the bridge was there. */
  between(point: Point, from: number, to: number): Moment[] {
    const start = Math.max(from, Date.now() - this.keep, this.startedAt);
    const moments = this.series.get(point.name)?.between(start, to) ?? [];
    return moments.map(moment => (moment.wall >= start ? moment : { ...moment, wall: Math.min(start, to) }));
  }

  private drop(series: Series): void {
    series.dropOldest();
    series.owed++;
    this.count--;
  }

  private dropOldestOfAll(): void {
    while (this.order[this.orderStart]?.settle() === true) this.orderStart++;
    this.order[this.orderStart++]?.dropOldest();
    this.count--;
    // Shifting a long list for each sample would cost more than the sample.
    if (this.orderStart < 1024 || this.orderStart < this.order.length / 2) return;
    this.order = this.order.slice(this.orderStart);
    this.orderStart = 0;
  }
}
