import { expect, test } from 'vitest';
import { Expression, ExpressionError } from '../../src/expression/expression.ts';
import { Plant } from '../../src/model/plant.ts';
import type { Point } from '../../src/model/point.ts';
import { bad, good, type Reading, sampleOf, uncertain } from '../../src/model/sample.ts';

const point = (id: string, value: Point['value']): Point => ({
  name: `d.${id}`,
  device: 'd',
  id,
  uri: '',
  type: 'x',
  value,
  deadband: { absolute: 0 },
  pollInterval: 1,
  staleAfter: 1,
  hidden: false,
});
const plant = new Plant(
  [
    {
      name: 'd',
      connection: 'c',
      uri: '',
      points: [
        point('t', { kind: 'number', integer: false }),
        point('n', { kind: 'number', integer: true }),
        point('mode', { kind: 'enum', labels: ['off', 'auto'] }),
        point('alarms', { kind: 'flags', labels: ['hot'] }),
        point('on', { kind: 'bool' }),
      ],
    },
  ],
  [],
);

const VALUES: Record<string, Reading> = {
  'd.t': good(5.5),
  'd.n': good(3),
  'd.mode': good('auto'),
  'd.alarms': good(['hot', 'bit_2']),
  'd.on': good(true),
};
const run = (text: string, values: Record<string, Reading> = VALUES) =>
  Expression.compile(text, plant, 'bool').run(one => sampleOf(one, values[one.name] ?? bad('initialising')));

test.each([
  ['d.t < 6', true],
  ['d.t < 5.0 || d.on', true],
  ['d.t * 2 > 10', true],
  ['d.n + 1 >= 4', true],
  ['2 * d.n == 6.0', true],
  ['d.n == 3 && 3 == d.n && d.n != 4', true],
  ['d.n != 3', false],
  ['d.t - d.n > 2.4', true],
  ['d.mode == "auto" && !d.on', false],
  ['d.mode in ["off", "manual"]', false],
  ['"hot" in d.alarms', true],
  ['d.alarms.exists(x, x == "bit_2")', true],
  ['size(d.alarms) == 2', true],
])('%s is %s', (text, value) => {
  expect(run(text)).toEqual({ value, quality: 'good' });
});

test('it knows which points it reads', () => {
  expect(Expression.compile('d.t > 1.0 && d.alarms.exists(a, a == d.mode)', plant).points.map(one => one.name)).toEqual([
    'd.t',
    'd.alarms',
    'd.mode',
  ]);
});

test('an input that is bad leaves it without an answer, one that is doubted makes it doubtful', () => {
  expect(run('d.t < 6', { ...VALUES, 'd.t': bad('timeout') })).toMatchObject({ quality: 'bad', because: { reason: 'timeout' } });
  expect(run('d.t < 6', { ...VALUES, 'd.t': uncertain(5, 'stale') })).toEqual({ value: true, quality: 'uncertain' });
});

test.each([
  ['d.tt < 6', 'there is no point d.tt, did you mean d.t?'],
  ['d.t <', 'nexpected'],
  ['d.mode < 3', 'no such overload'],
  ['[1, 2].all(a, [1, 2].all(b, a < b))', 'all() can not stand inside another function'],
  ['[[1, 2], [3]].all(c, c.exists(e, e > 1))', 'exists() can not stand inside another function'],
  ['[[1, 2].map(a, a), [3].map(b, b)].all(c, c.exists(e, e > 1))', 'map() can not stand inside another function'],
  ['[1].map(a, a + 1).exists(b, b > 1)', 'map() can not stand inside another function'],
  ['[[1]].map(a, a + a).map(b, b + b).exists(c, size(c) == 3)', 'map() can not stand inside another function'],
  ['cel.bind(a, "xx", cel.bind(b, a + a, b == "")) && d.level > 1.0', 'bind() can not stand inside another function'],
  [`"${'a'.repeat(40)}!".matches("^(a+)+$")`, 'matches() is not available here'],
  ['d.t + 1', 'a condition is true or false'],
  ['x'.repeat(3000), 'longer than 2000 characters'],
])('%s is refused in words', (text, message) => {
  expect(() => Expression.compile(text, plant, 'bool')).toThrow(ExpressionError);
  expect(() => Expression.compile(text, plant, 'bool')).toThrow(message);
});

test('an expression that would grow without end is refused', () => {
  expect(() => Expression.compile(`d.t > 0.0 ${'&& (d.on '.repeat(200)}${')'.repeat(200)}`, plant)).toThrow(ExpressionError);
});
