import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SealedStates, StateError } from '../../src/mcp/sealed-state.ts';

const LIFETIME = 1000;

test('what was sealed comes back, once, for whom it was sealed and in time', () => {
  let now = 0;
  const states = new SealedStates(LIFETIME, () => now);
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), fc.string(), (value, bound, other) => {
      const plain = JSON.parse(JSON.stringify(value)) as object;
      const sealed = states.seal(value, bound);
      if (other !== bound) expect(() => states.open(sealed, other)).toThrow(StateError);
      expect(states.open(sealed, bound)).toEqual(plain);
      expect(() => states.open(sealed, bound)).toThrow('used already');
      const late = states.seal(value, bound);
      now += LIFETIME + 1;
      expect(() => states.open(late, bound)).toThrow('expired');
    }),
  );
});

test('no change of any character is taken, nor the state of another run', () => {
  const states = new SealedStates(LIFETIME, () => 0);
  fc.assert(
    fc.property(fc.nat(), fc.constantFrom(...'ABab09-_=+/ .'), fc.boolean(), (place, char, isInserted) => {
      const sealed = states.seal({ point: 'valve.main', value: true }, 'operator');
      const at = place % sealed.length;
      const altered = sealed.slice(0, at) + char + sealed.slice(isInserted ? at : at + 1);
      fc.pre(altered !== sealed);
      expect(() => states.open(altered, 'operator')).toThrow(StateError);
    }),
  );
  expect(() => new SealedStates(LIFETIME).open(states.seal({}, 'operator'), 'operator')).toThrow(StateError);
  for (const text of ['', 'x', 'A'.repeat(1000)]) expect(() => states.open(text, 'operator')).toThrow(StateError);
});
