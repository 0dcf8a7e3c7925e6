import type { Quality } from '../model/sample.ts';
import { asNumber, type JsonValue, toJson, type Value } from '../model/value.ts';
import type { Moment } from '../store/history.ts';

export interface SeriesEntry {
  readonly timestamp: string;
  readonly value: JsonValue;
  readonly quality: Quality;
}

export type Aggregate = 'avg' | 'min' | 'max' | 'last';

const entryOf = ({ wall, value, quality }: Moment): SeriesEntry => ({
  timestamp: new Date(wall).toISOString(),
  value: toJson(value),
  quality,
});

/**
 * At most so many of the moments, with the lowest and the highest of each stretch among them, and with every change of
 * quality that a stretch brings at its ends: a peak is never lost, whatever the number.
 */
export function thinned(moments: readonly Moment[], most: number): SeriesEntry[] {
  if (moments.length <= most) return moments.map(entryOf);
  // First, lowest, highest and last of each stretch.
  const stretches = Math.max(1, Math.floor(most / 4));
  const size = moments.length / stretches;
  const kept = new Set<number>();
  for (let i = 0; i < stretches; i++) {
    const [from, to] = [Math.floor(i * size), Math.floor((i + 1) * size)];
    let [low, high] = [from, from];
    for (let n = from; n < to; n++) {
      const value = numberOf(moments[n]?.value);
      if (value === undefined) continue;
      if (value < (numberOf(moments[low]?.value) ?? Number.POSITIVE_INFINITY)) low = n;
      if (value > (numberOf(moments[high]?.value) ?? Number.NEGATIVE_INFINITY)) high = n;
    }
    for (const n of [from, low, high, to - 1]) kept.add(n);
  }
  return [...kept].sort((a, b) => a - b).flatMap(n => (moments[n] === undefined ? [] : entryOf(moments[n])));
}

const numberOf = (value: Value | undefined): number | undefined => (value === undefined ? undefined : asNumber(value));

/**
 * One entry for each interval that something is known of. A value holds until the next, so an average weighs each by how
 * long it held. Times without a value are left out of the account, and make the entry uncertain; where there is nothing
 * else, it is bad.
 */
export function aggregated(moments: readonly Moment[], from: number, to: number, interval: number, how: Aggregate): SeriesEntry[] {
  const entries: SeriesEntry[] = [];
  let next = 0;
  let held: Moment | undefined;
  for (let start = from; start < to; start += interval) {
    const end = Math.min(start + interval, to);
    const parts: { readonly moment: Moment; readonly ms: number }[] = [];
    let at = start;
    for (; next < moments.length && (moments[next]?.wall ?? 0) < end; next++) {
      const moment = moments[next] as Moment;
      if (held !== undefined && moment.wall > at) parts.push({ moment: held, ms: moment.wall - at });
      at = Math.max(at, moment.wall);
      held = moment;
    }
    if (held !== undefined) parts.push({ moment: held, ms: end - at });
    if (parts.length > 0) entries.push(entryFor(start, parts, how));
  }
  return entries;
}

function entryFor(start: number, parts: readonly { readonly moment: Moment; readonly ms: number }[], how: Aggregate): SeriesEntry {
  const timestamp = new Date(start).toISOString();
  const known = parts.filter(({ moment }) => moment.quality !== 'bad');
  const last = parts.at(-1)?.moment;
  if (how === 'last') return { timestamp, value: toJson(last?.value ?? null), quality: last?.quality ?? 'bad' };
  if (known.length === 0) return { timestamp, value: null, quality: 'bad' };
  const numbers = known.map(({ moment, ms }) => ({ number: numberOf(moment.value) ?? 0, ms }));
  const total = numbers.reduce((sum, { ms }) => sum + ms, 0);
  const value =
    how === 'avg'
      ? total === 0
        ? (numbers.at(-1)?.number ?? 0)
        : numbers.reduce((sum, { number, ms }) => sum + number * ms, 0) / total
      : numbers.map(({ number }) => number).reduce((a, b) => Math[how](a, b));
  const isGood = known.length === parts.length && known.every(({ moment }) => moment.quality === 'good');
  // What an average adds in digits is no information.
  return { timestamp, value: how === 'avg' ? Number(value.toPrecision(9)) : value, quality: isGood ? 'good' : 'uncertain' };
}
