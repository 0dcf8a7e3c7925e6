import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isFilter, TopicIndex } from '../../../src/drivers/mqtt/topics.ts';

const level = fc.constantFrom('a', 'b', 'c', '');
const topic = fc.array(level, { minLength: 1, maxLength: 4 }).map(levels => levels.join('/'));
const filter = fc
  .tuple(fc.array(fc.oneof(level, fc.constant('+')), { minLength: 1, maxLength: 4 }), fc.boolean())
  .map(([levels, all]) => (all ? [...levels, '#'] : levels).join('/'));

/** MQTT 5.0, 4.7.1, once more and in another way: as a regular expression. */
function matches(wanted: string, name: string): boolean {
  const levels = wanted.split('/');
  const last = levels.at(-1) === '#';
  const head = (last ? levels.slice(0, -1) : levels).map(one => (one === '+' ? '[^/]*' : one));
  return new RegExp(`^${head.join('/')}${last ? '(/.*)?' : ''}$`).test(name);
}

const indexOf = (filters: readonly string[]): TopicIndex<string> => {
  const index = new TopicIndex<string>();
  for (const one of filters) index.add(one, one);
  return index;
};

test('a topic finds the filters that it fits, those and no others', () => {
  fc.assert(
    fc.property(fc.uniqueArray(filter, { maxLength: 8 }), topic, (filters, name) => {
      const index = indexOf(filters);
      const expected = filters.filter(one => matches(one, name)).sort();
      expect([...index.find(name)].sort()).toEqual(expected);
      // And once more, from memory.
      expect([...index.find(name)].sort()).toEqual(expected);
    }),
    { numRuns: 2000 },
  );
});

test('what is subscribed to lets through all that is wanted, and no filter stands for another', () => {
  fc.assert(
    fc.property(fc.uniqueArray(filter, { minLength: 1, maxLength: 8 }), topic, (filters, name) => {
      const index = indexOf(filters);
      expect(index.all.some(one => matches(one, name))).toBe(filters.some(one => matches(one, name)));
      for (const one of index.all) expect(index.all.filter(other => other !== one && index.coveredBy(other).includes(one))).toEqual([]);
    }),
    { numRuns: 2000 },
  );
});

test.each([
  ['a/+/c', true],
  ['#', true],
  ['a/#', true],
  ['a+/b', false],
  ['a/#/b', false],
  ['a#', false],
])('%s', (text, is) => {
  expect(isFilter(text)).toBe(is);
});

test("the broker's own topics are not meant by wildcards in the first place", () => {
  const index = indexOf(['#', '+/x', '$SYS/#']);
  expect(index.find('$SYS/x')).toEqual(['$SYS/#']);
  expect(index.all.sort()).toEqual(['#', '$SYS/#']);
});
