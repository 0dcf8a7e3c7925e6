import fc from 'fast-check';
import { expect, test } from 'vitest';
import { globMatcher } from '../../src/model/glob.ts';

test.each([
  ['boiler.*', 'boiler.flow', true],
  ['*flow*', 'boiler.flow_rate', true],
  ['boiler.t?nk', 'boiler.tank', true],
  ['boiler', 'boiler.flow', false],
  ['*', '', true],
  ['?', '', false],
  ['a**b', 'ab', true],
  ['BOILER.*', 'boiler.flow', true],
  ['boiler.[a-z]*', 'boiler.flow', false],
])('%s against %s is %s', (glob, name, matches) => {
  expect(globMatcher(glob)(name)).toBe(matches);
});

test('a glob matches what its regular expression would', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 12 });
  const glob = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*', '?'), maxLength: 8 });
  fc.assert(
    fc.property(glob, text, (pattern, name) => {
      const source = pattern.replaceAll('.', '\\.').replaceAll('*', '[^]*').replaceAll('?', '[^]');
      expect(globMatcher(pattern)(name)).toBe(new RegExp(`^${source}$`).test(name));
    }),
  );
});

test('no glob takes long', () => {
  const matches = globMatcher(`${'*a'.repeat(90)}*b`);
  for (let i = 0; i < 1000; i++) expect(matches('a'.repeat(97))).toBe(false);
});
