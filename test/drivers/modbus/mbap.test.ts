import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MbapParser, mbapFrame } from '../../../src/drivers/modbus/mbap.ts';
import { checkReply, type Expectation } from '../../../src/drivers/modbus/reply.ts';
import { ProtocolError } from '../../../src/model/errors.ts';

const pdu = fc.uint8Array({ minLength: 2, maxLength: 253 }).map(bytes => Buffer.from(bytes));
const frames = fc.array(fc.record({ transaction: fc.integer({ min: 0, max: 0xffff }), unit: fc.integer({ min: 0, max: 255 }), pdu }), {
  minLength: 1,
  maxLength: 5,
});

describe('a stream of frames', () => {
  test('comes out whole, however it is cut', () => {
    fc.assert(
      fc.property(frames, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 60 }), (sent, cuts) => {
        const stream = Buffer.concat(sent.map(frame => mbapFrame(frame.transaction, frame.unit, frame.pdu)));
        const parser = new MbapParser();
        const got = [];
        let at = 0;
        for (let i = 0; at < stream.length; i++) {
          const size = cuts[i % cuts.length] ?? 1;
          got.push(...parser.push(stream.subarray(at, at + size)));
          at += size;
        }
        expect(got.map(frame => ({ ...frame, pdu: frame.pdu.toString('hex') }))).toEqual(
          sent.map(frame => ({ ...frame, pdu: frame.pdu.toString('hex') })),
        );
      }),
    );
  });

  test('of any bytes gives frames or a protocol error, and holds back less than one frame', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 20 }), chunks => {
        const parser = new MbapParser();
        try {
          for (const chunk of chunks) {
            parser.push(Buffer.from(chunk));
            expect((parser as unknown as { rest: Buffer }).rest.length).toBeLessThan(260);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});

test('of all mutations of a right reply, only those that change nothing but data are taken', () => {
  const expected: Expectation = { unit: 7, functionCode: 3, bytes: 4 };
  const right = Buffer.from([3, 4, 1, 2, 3, 4]);
  expect(() => checkReply(expected, 7, right)).not.toThrow();
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 255 }), fc.uint8Array({ minLength: 2, maxLength: 12 }), (unit, bytes) => {
      const reply = Buffer.from(bytes);
      const fits = unit === 7 && ((reply[0] === 3 && reply[1] === 4 && reply.length === 6) || (reply[0] === 0x83 && reply.length === 2));
      if (fits) expect(() => checkReply(expected, unit, reply)).not.toThrow();
      else expect(() => checkReply(expected, unit, reply)).toThrow(ProtocolError);
    }),
  );
});
