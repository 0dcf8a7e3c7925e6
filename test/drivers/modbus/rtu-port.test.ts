import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withCrc } from '../../../src/drivers/modbus/port.ts';
import type { Expectation } from '../../../src/drivers/modbus/reply.ts';
import { type ByteLine, RtuPort, type RtuSettings } from '../../../src/drivers/modbus/rtu-port.ts';

/** 9600 baud with parity: a character takes 11 bits. */
const CHARACTER = 11_000 / 9600;
const READ = Buffer.from([3, 0, 0, 0, 1]);

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});
afterEach(() => {
  vi.useRealTimers();
});

function setUp(more: Partial<RtuSettings> = {}) {
  const sent: { at: number; bytes: Buffer }[] = [];
  const replies: Buffer[] = [];
  const refused: string[] = [];
  let data: (chunk: Buffer) => void = () => undefined;
  const line: ByteLine = {
    isOpen: true,
    open: events => {
      data = events.data;
      events.open();
    },
    write: bytes => void sent.push({ at: performance.now(), bytes }),
    close: () => undefined,
  };
  const port = new RtuPort(line, { character: CHARACTER, silence: 3.5 * CHARACTER, timeout: 100, echo: false, redials: false, ...more });
  port.open(() => undefined);
  port.on('data', (rtu: Buffer) => replies.push(rtu));
  port.on('refused', (_: number, error: Error) => refused.push(error.message));
  const ask = async (unit: number): Promise<number> => {
    const expected: Expectation = { unit, functionCode: 3, bytes: 2 };
    let isReady = false;
    const ready = port.ready(expected).then(() => {
      isReady = true;
    });
    await vi.advanceTimersByTimeAsync(0);
    while (!isReady) await vi.advanceTimersByTimeAsync(1);
    await ready;
    const transaction = port.expect(expected);
    port.write(withCrc(unit, READ));
    return transaction;
  };
  return { port, sent, replies, refused, ask, feed: (bytes: Buffer) => data(bytes) };
}

const reply = (unit: number, value: number): Buffer => withCrc(unit, Buffer.from([3, 2, 0, value]));

test('between a reply and the next request lie 3.5 characters', async () => {
  const { sent, replies, ask, feed } = setUp();
  await ask(1);
  await vi.advanceTimersByTimeAsync(20);
  const heard = performance.now();
  feed(reply(1, 42));
  expect(replies).toHaveLength(1);
  await ask(2);
  expect((sent[1]?.at ?? 0) - heard).toBeGreaterThanOrEqual(3.5 * CHARACTER);
});

test('the time for a reply counts the bytes that are on the wire', () => {
  const { port } = setUp();
  const expected = { unit: 1, functionCode: 3, bytes: 250 };
  expect(port.transmission(expected)).toBeCloseTo((8 + 3 + 2 + 250) * CHARACTER, 3);
});

test('after a timeout the same unit is left alone for as long as its late reply may take; another is asked at once', async () => {
  const { port, sent, replies, ask, feed } = setUp();
  const first = await ask(1);
  await vi.advanceTimersByTimeAsync(100);
  port.forget(first, true);
  expect(port.holdOff(1)).toBeGreaterThan(90);
  expect(port.holdOff(2)).toBe(0);
  const second = await ask(2);
  expect((sent[1]?.at ?? 0) - (sent[0]?.at ?? 0)).toBeLessThan(105);
  // The late reply of unit 1 comes in front of that of unit 2.
  feed(Buffer.concat([reply(1, 99), reply(2, 7)]));
  expect(replies.map(rtu => [rtu[0], rtu[4]])).toEqual([[2, 7]]);
  expect(port.discardedReplies).toBe(1);
  port.forget(second, false);
});

test('on a serial line garbage ends the request when the line has fallen silent, and the line stays open', async () => {
  const { port, replies, refused, ask, feed } = setUp();
  const transaction = await ask(1);
  feed(Buffer.from([1, 3, 2, 0, 42, 0, 0]));
  expect(refused).toEqual([]);
  await vi.advanceTimersByTimeAsync(30);
  expect(refused).toEqual(['a reply whose CRC is wrong']);
  expect(port.isOpen).toBe(true);
  port.forget(transaction, false);
  await ask(1);
  feed(reply(1, 42));
  expect(replies).toHaveLength(1);
});
