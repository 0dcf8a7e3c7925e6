import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decimalOf, formatDecimal, Linear } from '../../src/model/decimal.ts';

/** Scales as register lists have them: a few digits, moved by a power of ten. */
const scale = fc
  .tuple(fc.integer({ min: 1, max: 9999 }), fc.integer({ min: -6, max: 3 }), fc.boolean())
  .map(([digits, power, negative]) => Number(`${negative ? '-' : ''}${digits}e${power}`));
const offset = fc
  .tuple(fc.integer({ min: -99_999, max: 99_999 }), fc.integer({ min: -4, max: 0 }))
  .map(([digits, power]) => Number(`${digits}e${power}`));

test('a decimal prints as the number that it was made of', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), value => {
      expect(Number(formatDecimal(decimalOf(value)))).toBe(value === 0 ? 0 : value);
    }),
  );
});

test('every raw value comes back from its engineering value, whatever scale and offset', () => {
  fc.assert(
    fc.property(scale, offset, fc.integer({ min: -(2 ** 31), max: 2 ** 32 - 1 }), (factor, shift, raw) => {
      const linear = new Linear(factor, shift);
      expect(linear.toRaw(linear.toEngineering(raw))).toEqual({ raw: BigInt(raw) });
    }),
  );
});

test('an engineering value has no more decimals than scale and offset have', () => {
  fc.assert(
    fc.property(scale, offset, fc.integer({ min: -32_768, max: 65_535 }), (factor, shift, raw) => {
      const places = Math.max(decimalOf(factor).places, decimalOf(shift).places);
      expect(decimalOf(new Linear(factor, shift).toEngineering(raw)).places).toBeLessThanOrEqual(places);
    }),
  );
});

test('64-bit raw values stay exact, scaled or not', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }), fc.constantFrom(1, 0.001, 0.1, 10), (raw, factor) => {
      const linear = new Linear(factor);
      expect(linear.toRaw(linear.toEngineering(raw))).toEqual({ raw });
    }),
  );
});

test('between two raw values is refused with both, in order', () => {
  fc.assert(
    fc.property(scale, fc.integer({ min: -30_000, max: 30_000 }), fc.integer({ min: 5, max: 95 }), (factor, raw, percent) => {
      const linear = new Linear(factor);
      const between = formatDecimal({ units: decimalOf(factor).units * BigInt(raw * 100 + percent), places: decimalOf(factor).places + 2 });
      expect(linear.toRaw(between)).toEqual({ below: BigInt(raw), above: BigInt(raw + 1) });
    }),
  );
});

test('float noise of the asker is forgiven, half a step never', () => {
  expect(new Linear(0.1).toRaw(0.1 + 0.2)).toEqual({ raw: 3n });
  expect(new Linear(0.1, -273.15).toRaw(19.95)).toEqual({ raw: 2931n });
  expect(new Linear().toRaw(2147483647.5)).toEqual({ below: 2147483647n, above: 2147483648n });
});
