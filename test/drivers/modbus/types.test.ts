import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Codec, type CodecSpec } from '../../../src/drivers/modbus/codec.ts';
import { DATA_TYPES, ORDERS, readFloat16, reorder, TYPE_NAMES, type TypeName, writeFloat16 } from '../../../src/drivers/modbus/types.ts';

const spec = (type: TypeName, more: Partial<CodecSpec> = {}): CodecSpec => ({
  type,
  order: 'ABCD',
  registers: DATA_TYPES[type].registers ?? 4,
  byte: 'low',
  encoding: 'ascii',
  scale: 1,
  offset: 0,
  scaled: false,
  invalid: [],
  ...(DATA_TYPES[type].registers === undefined && { length: 8 }),
  ...more,
});

test('every binary16 is read and written back to the same bits', () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = readFloat16(bits);
    if (Number.isNaN(value)) continue;
    expect(writeFloat16(value)).toBe(bits);
  }
});

test('a binary16 is the nearest one', () => {
  fc.assert(
    fc.property(fc.double({ min: -65504, max: 65504, noNaN: true }), value => {
      const written = readFloat16(writeFloat16(value));
      for (const neighbour of [-1, 1]) {
        const other = readFloat16((writeFloat16(value) + neighbour) & 0xffff);
        if (Number.isFinite(other)) expect(Math.abs(written - value)).toBeLessThanOrEqual(Math.abs(other - value));
      }
    }),
  );
});

test('an order applied twice is no order', () => {
  fc.assert(
    fc.property(fc.constantFrom(...ORDERS), fc.uint8Array({ minLength: 8, maxLength: 8 }), fc.boolean(), (order, bytes, text) => {
      expect([...reorder(reorder(Buffer.from(bytes), order, text), order, text)]).toEqual([...bytes]);
    }),
  );
});

const wholeTypes = TYPE_NAMES.filter(type => !['bool', 'string', 'bytes', 'int8', 'uint8'].includes(type));

test('whatever registers hold, decoding gives a value or a reason, and never throws', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...TYPE_NAMES),
      fc.constantFrom(...ORDERS),
      fc.uint8Array({ minLength: 8, maxLength: 8 }),
      (type, order, bytes) => {
        const codec = new Codec(spec(type, { order, ...(type === 'bool' && { bit: 3 }) }));
        const words = Array.from({ length: codec.spec.registers }, (_, i) => Buffer.from(bytes).readUInt16BE(i * 2));
        const reading = codec.decode(words);
        expect(reading.quality === 'bad').toBe(reading.value === null);
      },
    ),
  );
});

test('what was decoded is encoded to the same registers, in every type and order', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...wholeTypes),
      fc.constantFrom(...ORDERS),
      fc.uint8Array({ minLength: 8, maxLength: 8 }),
      (type, order, bytes) => {
        const codec = new Codec(spec(type, { order }));
        const words = Array.from({ length: codec.spec.registers }, (_, i) => Buffer.from(bytes).readUInt16BE(i * 2));
        const reading = codec.decode(words);
        if (reading.quality === 'bad' || Object.is(reading.value, -0)) return;
        expect(codec.encode(reading.value)).toEqual({ registers: words });
      },
    ),
  );
});
