import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Message } from '../../../src/drivers/mqtt/message.ts';

const contentOf = (text: string): unknown => new Message('t', Buffer.from(text)).content;

test('JSON without numbers beyond 2^53 is what JSON.parse makes of it', () => {
  fc.assert(
    fc.property(fc.json({ depthSize: 'medium' }), text => {
      fc.pre(!/(?<![\d.eE"+-])-?\d{16}/.test(text));
      expect(contentOf(text)).toEqual(JSON.parse(text));
    }),
    { numRuns: 1000 },
  );
});

test('whole numbers of any size are exact, wherever they stand', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 10n ** 15n, max: 10n ** 39n }), fc.boolean(), fc.string(), (size, negative, text) => {
      const number = negative ? -size : size;
      const beside = JSON.stringify(`${text} ${number}`);
      const content = contentOf(`{"a":[${number}, ${beside}],"b":{"c":${number}}}`) as { a: [unknown, unknown]; b: { c: unknown } };
      expect(BigInt(content.a[0] as number | bigint)).toBe(number);
      expect(content.a[1]).toBe(`${text} ${number}`);
      expect(BigInt(content.b.c as number | bigint)).toBe(number);
      expect(BigInt(contentOf(String(number)) as number | bigint)).toBe(number);
    }),
  );
});

test('whatever the bytes are, there is text or none, and nothing is thrown', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), bytes => {
      const message = new Message('t', Buffer.from(bytes));
      const { text } = message;
      if (text === undefined) expect(message.content).toBeUndefined();
      else expect(Buffer.from(text).equals(Buffer.from(bytes)) || bytes[0] === 0xef).toBe(true);
    }),
    { numRuns: 2000 },
  );
});
