import { expect, test } from 'vitest';
import { fuzzReplies } from '../../../bench/fuzz.ts';

test('random and mutated replies: nothing is thrown, nothing that does not fit is taken, and what fits is', () => {
  for (const seed of [1, 2, 3]) {
    for (const { replies, taken } of fuzzReplies(3000, seed)) {
      expect(taken).toBeGreaterThan(replies * 0.05);
      expect(taken).toBeLessThan(replies * 0.9);
    }
  }
});
