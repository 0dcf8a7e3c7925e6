import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Plant } from '../../src/model/plant.ts';
import type { Point } from '../../src/model/point.ts';
import { bad, good, type Reading, sampleOf } from '../../src/model/sample.ts';
import { LiveValues } from '../../src/store/live-values.ts';

const point = (id: string, more: Partial<Point> = {}): Point => ({
  name: `d.${id}`,
  device: 'd',
  id,
  uri: `plant://d/${id}`,
  type: 'float32',
  value: { kind: 'number', integer: false },
  deadband: { absolute: 0 },
  pollInterval: 1000,
  staleAfter: 3000,
  hidden: false,
  ...more,
});

function setUp(one: Point) {
  const live = new LiveValues(new Plant([{ name: 'd', connection: 'c', uri: 'plant://d', points: [one] }], []));
  const told: unknown[] = [];
  live.onChange(({ sample }) => told.push(sample.quality === 'good' ? sample.value : sample.reason));
  return { live, told, update: (reading: Reading) => live.update([sampleOf(one, reading)]) };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('before the first poll a value is bad and initialising', () => {
  const one = point('p');
  const { live } = setUp(one);
  expect(live.get(one)).toMatchObject({ value: null, quality: 'bad', reason: 'initialising' });
});

test('a change within the deadband of what was last told is not told, however it creeps there', () => {
  const { told, update } = setUp(point('p', { deadband: { absolute: 0.5 } }));
  for (const value of [20, 20.3, 20.5, 20.6, 20.2, 20.1]) update(good(value));
  expect(told).toEqual([20, 20.6]);
  update(good(20.1 - 1e-12));
  expect(told).toEqual([20, 20.6]);
});

test('a counter beyond 2^53 that counts by one has changed', () => {
  const { told, update } = setUp(point('p'));
  for (const value of [2n ** 60n, 2n ** 60n + 1n, 2n ** 60n + 1n]) update(good(value));
  expect(told).toEqual([2n ** 60n, 2n ** 60n + 1n]);
});

test('a share is taken of the range, and without a range of the value last told', () => {
  const ranged = setUp(point('p', { deadband: { percent: 2 }, range: [0, 100] }));
  for (const value of [50, 52, 52.1]) ranged.update(good(value));
  expect(ranged.told).toEqual([50, 52.1]);
  const plain = setUp(point('p', { deadband: { percent: 10 } }));
  for (const value of [10, 11, 11.1, 12.2, 12.3]) plain.update(good(value));
  expect(plain.told).toEqual([10, 11.1, 12.3]);
});

test('a change of quality or reason is always told, and the last good value is kept', () => {
  const one = point('p', { deadband: { absolute: 10 } });
  const { live, told, update } = setUp(one);
  update(good(5));
  update(bad('timeout'));
  update(bad('timeout'));
  update(bad('no_connection'));
  expect(live.get(one)).toMatchObject({ value: null, lastGood: { value: 5 } });
  update(good(5));
  expect(told).toEqual([5, 'timeout', 'no_connection', 5]);
});

test('a value grows stale by itself, and its subscriber hears of it', () => {
  const one = point('p');
  const { live, told, update } = setUp(one);
  update(good(5));
  vi.advanceTimersByTime(2900);
  expect(live.get(one).quality).toBe('good');
  vi.advanceTimersByTime(2000);
  expect(live.get(one)).toMatchObject({ value: 5, quality: 'uncertain', reason: 'stale' });
  expect(told).toEqual([5, 'stale']);
  update(good(5));
  expect(told).toEqual([5, 'stale', 5]);
});

test('of two readings that overlap the later one counts', () => {
  const one = point('p');
  const { live } = setUp(one);
  const early = sampleOf(one, good(1));
  vi.advanceTimersByTime(5);
  live.update([sampleOf(one, good(2))]);
  live.update([early]);
  expect(live.get(one).value).toBe(2);
});

test('each change has a number, so that none is missed', () => {
  const one = point('p');
  const { live, update } = setUp(one);
  expect(live.cursor).toBe(0);
  update(good(1));
  update(good(2));
  expect([live.cursor, live.changedAt(one)]).toEqual([2, 2]);
});
