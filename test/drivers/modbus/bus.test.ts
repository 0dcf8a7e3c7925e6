import { expect, test } from 'vitest';
import { Bus, type Job } from '../../../src/drivers/modbus/bus.ts';
import type { ModbusClient } from '../../../src/drivers/modbus/client.ts';
import { TransportError } from '../../../src/model/errors.ts';

/** A bus whose jobs end when the test says so. */
function setUp(maxInFlight = 1) {
  const order: string[] = [];
  const ends = new Map<string, () => void>();
  const bus = new Bus(maxInFlight, () => Promise.resolve({} as ModbusClient));
  const submit = (name: string, more: Partial<Job<void>> = {}): Promise<void> =>
    bus.submit({
      priority: 'poll',
      device: name.slice(0, 1),
      run: () => {
        order.push(name);
        return new Promise<void>(resolve => ends.set(name, resolve));
      },
      ...more,
    });
  const settle = () => new Promise(resolve => setImmediate(resolve));
  const finish = async (name: string): Promise<void> => {
    await settle();
    ends.get(name)?.();
    await settle();
  };
  return { bus, order, submit, finish, settle };
}

test('one at a time; writes go before fresh reads, and those before polls', async () => {
  const { order, submit, finish, bus } = setUp();
  const all = [submit('a1'), submit('b1'), submit('c1', { priority: 'fresh' }), submit('d1', { priority: 'write', exclusive: true })];
  for (const name of ['a1', 'd1', 'c1', 'b1']) await finish(name);
  expect(order).toEqual(['a1', 'd1', 'c1', 'b1']);
  await Promise.all(all);
  await bus.idle();
});

test('devices take turns, however many requests one of them has', async () => {
  const { order, submit, finish } = setUp();
  for (const name of ['a1', 'a2', 'a3', 'b1', 'c1']) void submit(name);
  for (const name of ['a1', 'b1', 'c1', 'a2', 'a3']) await finish(name);
  expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'a3']);
});

test('with several in flight a write has the wire to itself', async () => {
  const { order, submit, finish, settle } = setUp(3);
  void submit('a1');
  void submit('b1');
  void submit('w1', { priority: 'write', exclusive: true });
  void submit('c1');
  await settle();
  expect(order).toEqual(['a1', 'b1']);
  await finish('a1');
  expect(order).toEqual(['a1', 'b1']);
  await finish('b1');
  expect(order).toEqual(['a1', 'b1', 'w1']);
  await finish('w1');
  expect(order).toEqual(['a1', 'b1', 'w1', 'c1']);
});

test('what is cancelled while it waits is never sent', async () => {
  const { order, submit, finish, settle } = setUp();
  const abort = new AbortController();
  void submit('a1');
  const waiting = submit('b1', { signal: abort.signal });
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ kind: 'cancelled' });
  await finish('a1');
  await settle();
  expect(order).toEqual(['a1']);
  await expect(submit('c1', { signal: abort.signal })).rejects.toBeInstanceOf(TransportError);
});

test('stopping turns away what waits and lets what runs end', async () => {
  const { bus, submit, finish } = setUp();
  const running = submit('a1');
  const waiting = submit('b1');
  bus.stop();
  await expect(waiting).rejects.toMatchObject({ kind: 'no_connection' });
  await expect(submit('c1')).rejects.toMatchObject({ kind: 'no_connection' });
  await finish('a1');
  await running;
  await bus.idle();
});

test('the queue has an end', async () => {
  const { bus } = setUp();
  const job: Job<void> = { priority: 'poll', device: 'a', run: () => new Promise(() => undefined) };
  const turnedAway: unknown[] = [];
  for (let i = 0; i < 2005; i++) bus.submit(job).catch((error: unknown) => turnedAway.push(error));
  await new Promise(resolve => setImmediate(resolve));
  expect(bus.queued).toBe(2000);
  expect(turnedAway).toHaveLength(4);
});
