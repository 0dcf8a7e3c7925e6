import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Point } from '../../src/model/point.ts';
import { bad, good, sampleOf } from '../../src/model/sample.ts';
import { History } from '../../src/store/history.ts';

const point = (name: string): Point => ({ name }) as Point;
const [A, B] = [point('d.a'), point('d.b')];

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000_000 }));
afterEach(() => void vi.useRealTimers());

const add = (history: History, to: Point, value: number): void => history.append(sampleOf(to, good(value), performance.now(), Date.now()));

test('what held as a span began is told with it, and so is each change within', () => {
  const history = new History(3_600_000, 1000);
  for (const value of [1, 2, 3, 4]) {
    add(history, A, value);
    vi.advanceTimersByTime(10_000);
  }
  const start = 1_000_000_000;
  expect(history.between(A, start + 15_000, start + 25_000)).toEqual([
    { wall: start + 15_000, value: 2, quality: 'good' },
    { wall: start + 20_000, value: 3, quality: 'good' },
  ]);
  expect(history.between(B, start, start + 50_000)).toEqual([]);
});

test('bounded by time: a value that still holds stays, however old', () => {
  const history = new History(60_000, 1000);
  add(history, B, 7);
  for (let i = 0; i < 1000; i++) {
    add(history, A, i);
    vi.advanceTimersByTime(1000);
  }
  expect(history.size).toBeLessThanOrEqual(63);
  const now = Date.now();
  expect(history.between(B, 0, now)).toEqual([{ wall: now - 60_000, value: 7, quality: 'good' }]);
  expect(history.between(A, 0, now).map(moment => moment.value)).toEqual(Array.from({ length: 61 }, (_, i) => 939 + i).slice(1));
});

test('bounded by samples of all points together: the oldest of all goes first', () => {
  const history = new History(3_600_000, 10);
  for (let i = 0; i < 8; i++) add(history, A, i);
  vi.advanceTimersByTime(1000);
  for (let i = 0; i < 6; i++) add(history, B, i);
  expect(history.size).toBe(10);
  expect(history.between(A, 0, Date.now()).map(moment => moment.value)).toEqual([7]);
  vi.advanceTimersByTime(1000);
  for (let i = 6; i < 12; i++) add(history, B, i);
  expect(history.size).toBe(10);
  expect(history.between(A, 0, Date.now())).toEqual([]);
});

test('whatever comes, as many are held as were told of, and the bounds hold', () => {
  const step = fc.record({ of: fc.constantFrom(A, B), after: fc.integer({ min: 0, max: 5000 }), value: fc.integer({ min: 0, max: 5 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), fc.integer({ min: 1, max: 50 }), (steps, most) => {
      const history = new History(20_000, most);
      const told = new Map<Point, number[]>();
      for (const { of, after, value } of steps) {
        vi.advanceTimersByTime(after);
        add(history, of, value);
        // What says nothing new is left out.
        const before = told.get(of) ?? [];
        if (before.at(-1) !== value) told.set(of, [...before, value]);
        expect(history.size).toBeLessThanOrEqual(most);
      }
      for (const [of, values] of told) {
        const held = history.between(of, 0, Date.now()).map(moment => moment.value);
        expect(held).toEqual(held.length === 0 ? [] : values.slice(-held.length));
      }
    }),
  );
});

test('no value is kept as no value; turned off, nothing is', () => {
  const history = new History(60_000, 10);
  history.append(sampleOf(A, bad('timeout'), performance.now(), Date.now()));
  expect(history.between(A, 0, Date.now())).toMatchObject([{ value: null, quality: 'bad' }]);
  for (const off of [new History(0, 10), new History(10, 0)]) {
    add(off, A, 1);
    expect(off).toMatchObject({ enabled: false, size: 0 });
  }
});

test('a million samples cost what they cost, and no more with each', () => {
  const history = new History(3_600_000, 100_000);
  for (let i = 0; i < 300_000; i++) add(history, i % 2 === 0 ? A : B, i);
  expect(history.size).toBe(100_000);
});
