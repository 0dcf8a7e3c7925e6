import fc from 'fast-check';
import { expect, test } from 'vitest';
import { aggregated, thinned } from '../../src/mcp/series.ts';
import type { Moment } from '../../src/store/history.ts';

const moments = (...values: readonly (number | null)[]): Moment[] =>
  values.map((value, i) => ({ wall: i * 1000, value, quality: value === null ? 'bad' : 'good' }));
const values = (entries: readonly { readonly value: unknown; readonly quality: string }[]) =>
  entries.map(({ value, quality }) => [value, quality]);

test('thinned: never more than asked for, in order, and the lowest and the highest stay', () => {
  fc.assert(
    fc.property(fc.array(fc.integer(), { minLength: 1, maxLength: 3000 }), fc.integer({ min: 4, max: 500 }), (numbers, most) => {
      const entries = thinned(moments(...numbers), most);
      expect(entries.length).toBeLessThanOrEqual(most);
      const kept = entries.map(entry => entry.value as number);
      expect(Math.min(...kept)).toBe(Math.min(...numbers));
      expect(Math.max(...kept)).toBe(Math.max(...numbers));
      const times = entries.map(entry => entry.timestamp);
      expect(times).toEqual([...new Set(times)].sort());
      if (numbers.length <= most) expect(kept).toEqual(numbers);
      expect([kept[0], kept.at(-1)]).toEqual([numbers[0], numbers.at(-1)]);
    }),
  );
});

test('an average weighs each value by how long it held, also from before the interval', () => {
  // 10 for 1 s, 20 for 3 s.
  const series: Moment[] = [
    { wall: 0, value: 10, quality: 'good' },
    { wall: 1000, value: 20, quality: 'good' },
  ];
  expect(values(aggregated(series, 0, 8000, 4000, 'avg'))).toEqual([
    [17.5, 'good'],
    [20, 'good'],
  ]);
});

test('lowest, highest and last of each interval', () => {
  const series = moments(5, 1, 9, 4, 7, 2);
  expect(values(aggregated(series, 0, 6000, 3000, 'min'))).toEqual([
    [1, 'good'],
    // The 9 of the interval before ends as this one begins.
    [2, 'good'],
  ]);
  expect(values(aggregated(series, 0, 6000, 3000, 'max'))).toEqual([
    [9, 'good'],
    [7, 'good'],
  ]);
  expect(values(aggregated(series, 0, 6000, 3000, 'last'))).toEqual([
    [9, 'good'],
    [2, 'good'],
  ]);
});

test('times without a value are left out and leave the rest uncertain; nothing else is bad; before the first there is nothing', () => {
  const series: Moment[] = [
    { wall: 2000, value: 4, quality: 'good' },
    { wall: 3000, value: null, quality: 'bad' },
    { wall: 6000, value: 8, quality: 'good' },
  ];
  const entries = aggregated(series, 0, 8000, 2000, 'avg');
  expect(values(entries)).toEqual([
    [4, 'uncertain'],
    [null, 'bad'],
    [8, 'good'],
  ]);
  expect(entries[0]?.timestamp).toBe(new Date(2000).toISOString());
});

test('an average lies between the lowest and the highest of what was known', () => {
  fc.assert(
    fc.property(
      fc.array(fc.option(fc.integer({ min: -1000, max: 1000 })), { minLength: 1, maxLength: 60 }),
      fc.integer({ min: 500, max: 9000 }),
      (numbers, interval) => {
        const series = moments(...numbers);
        const end = numbers.length * 1000;
        const [low, avg, high] = (['min', 'avg', 'max'] as const).map(how => aggregated(series, 0, end, interval, how));
        expect(avg?.length).toBe(Math.ceil(end / interval));
        for (const [i, entry] of (avg ?? []).entries()) {
          expect([low?.[i]?.quality, high?.[i]?.quality]).toEqual([entry.quality, entry.quality]);
          if (entry.value === null) continue;
          expect(Number(entry.value)).toBeGreaterThanOrEqual(Number(low?.[i]?.value) - 1e-6);
          expect(Number(entry.value)).toBeLessThanOrEqual(Number(high?.[i]?.value) + 1e-6);
        }
      },
    ),
  );
});
