import type { NoReply } from '../drivers/driver.ts';
import { showDuration } from '../model/duration.ts';
import type { Point } from '../model/point.ts';
import type { Sample } from '../model/sample.ts';
import { asNumber, type JsonValue, sameValue, showValue, toJson, type Value } from '../model/value.ts';
import type { WriteReceipt } from '../model/write.ts';
import type { Ending } from './ending.ts';
import type { Field } from './field.ts';

/** Pauses between readings back, while the device settles. */
const VERIFY_PAUSES = [0, 50, 100, 200, 400];

/** What became of a request that went to the wire. */
export class Aftermath {
  private readonly field: Field;

  constructor(field: Field) {
    this.field = field;
  }

  /** What the device shows after it has acknowledged. */
  async verify(point: Point, wanted: Value, receipt: WriteReceipt): Promise<Ending> {
    const within = point.write?.verify;
    const { wire } = receipt;
    if (within === undefined) {
      return {
        status: 'unverified',
        wire,
        reason: receipt.mismatch ?? 'the device acknowledged the write; reading back is switched off for this point',
      };
    }
    const { shown, holds } = this.witness(point, wanted);
    const after = await this.readBack(shown, holds, within);
    const seen = shown === point ? 'the reading back' : `${shown.name}`;
    // What another point shows is not what this one is.
    const told = shown === point ? afterOf(after) : {};
    if (receipt.mismatch !== undefined)
      return { status: 'unverified', wire, ...told, reason: `${receipt.mismatch}; ${seen} shows ${describe(after)}` };
    if (after !== undefined && holds(after)) return { status: 'written', wire, ...told };
    return {
      status: 'unverified',
      wire,
      ...told,
      reason: `the device acknowledged the write, but after ${showDuration(within)} ${seen} shows ${describe(after)}`,
    };
  }

  /** No reply: nothing is repeated, and what the device now shows is told. */
  async afterSilence(point: Point, error: NoReply): Promise<Ending> {
    const deadline = performance.now() + (point.write?.verify ?? 2000);
    let after: Sample | undefined;
    do {
      // The connection is being made anew.
      await new Promise(resolve => setTimeout(resolve, 200));
      after = await this.readQuietly(point);
    } while (after?.quality === 'bad' && performance.now() < deadline);
    return {
      status: 'unknown',
      wire: error.wire,
      ...afterOf(after),
      reason: `${error.message}: the device may have acted, and the write is not repeated; the reading back shows ${describe(after)}`,
    };
  }

  async readQuietly(point: Point): Promise<Sample | undefined> {
    const [sample] = await this.field.readNow([point], new AbortController().signal).catch(() => []);
    return sample;
  }

  /** Which point shows what became of a write, and when it does. */
  private witness(point: Point, wanted: Value): { shown: Point; holds: (sample: Sample) => boolean } {
    const by = point.write?.verifyBy;
    const other = by === undefined ? undefined : this.field.plant.points.get(by.point);
    if (by === undefined || other === undefined) return { shown: point, holds: sample => matches(sample, wanted) };
    const holds = (sample: Sample): boolean => {
      const [a, b] = [asNumber(sample.value), asNumber(wanted)];
      if (sample.quality === 'bad' || sample.reason === 'stale') return false;
      return a !== undefined && b !== undefined ? Math.abs(a - b) <= by.tolerance + Math.abs(b) * 1e-9 : sameValue(sample.value, wanted);
    };
    return { shown: other, holds };
  }

  /** Reads until it holds or the time is up. */
  private async readBack(point: Point, holds: (sample: Sample) => boolean, within: number): Promise<Sample | undefined> {
    const deadline = performance.now() + within;
    let last: Sample | undefined;
    for (let i = 0; ; i++) {
      const pause = VERIFY_PAUSES[Math.min(i, VERIFY_PAUSES.length - 1)] ?? 0;
      if (i > 0 && performance.now() + pause > deadline) return last;
      if (pause > 0) await new Promise(resolve => setTimeout(resolve, pause));
      last = await this.readQuietly(point);
      if (last !== undefined && holds(last)) return last;
    }
  }
}

/** A value that went through the device's own representation comes back the same; a scaled one within float noise. */
export function matches(sample: Sample, wanted: Value): boolean {
  // What a point was an unknown time ago says nothing of what it is.
  if (sample.quality === 'bad' || sample.reason === 'stale') return false;
  if (sameValue(sample.value, wanted)) return true;
  const { value } = sample;
  if (typeof value !== 'number' || (typeof wanted !== 'number' && typeof wanted !== 'bigint')) return false;
  return sample.point.canonical === undefined && Math.abs(value - Number(wanted)) <= Math.abs(value) * 1e-6;
}

const afterOf = (sample: Sample | undefined): { after?: JsonValue } =>
  sample === undefined || sample.quality === 'bad' ? {} : { after: toJson(sample.value) };

function describe(sample: Sample | undefined): string {
  if (sample === undefined) return 'nothing';
  if (sample.quality === 'bad') return `no value (${sample.reason})`;
  return `${showValue(sample.value)}${sample.point.unit === undefined ? '' : ` ${sample.point.unit}`}`;
}
