import fc from 'fast-check';
import { afterEach, expect, test, vi } from 'vitest';
import { RecentEvents } from '../../src/mcp/event-store.ts';

const message = (text: string) => ({ jsonrpc: '2.0', method: 'notifications/test', params: { text } }) as const;

async function replayed(store: RecentEvents, last: string): Promise<string[]> {
  const ids: string[] = [];
  await store.replayEventsAfter(last, { send: id => Promise.resolve(void ids.push(id)) });
  return ids;
}

afterEach(() => void vi.useRealTimers());

test('after an event come the later ones of its stream, in order, or it is told that they are not all there', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom('a', 'b', '_GET_stream'), fc.integer({ min: 0, max: 300_000 })), { maxLength: 400 }),
      fc.nat(),
      async (events, pick) => {
        const store = new RecentEvents();
        const ids: { id: string; stream: string }[] = [];
        for (const [stream, size] of events) ids.push({ id: await store.storeEvent(stream, message('x'.repeat(size))), stream });
        const at = ids.length === 0 ? -1 : pick % ids.length;
        const last = ids[at];
        if (last === undefined) return;
        const expected = ids.slice(at + 1).filter(({ stream }) => stream === last.stream);
        const got = await replayed(store, last.id);
        if (store.hasAllAfter(last.id)) expect(got).toEqual(expected.map(({ id }) => id));
        else expect(expected.map(({ id }) => id)).toEqual(expect.arrayContaining(got));
      },
    ),
    { numRuns: 30 },
  );
});

test('it keeps 256 events, 256 kB and five minutes at the most', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const store = new RecentEvents();
  const first = await store.storeEvent('a', message('first'));
  for (let i = 0; i < 255; i++) await store.storeEvent('a', message('x'));
  expect(store.hasAllAfter(first)).toBe(true);
  const next = await store.storeEvent('a', message('x'));
  expect(store.hasAllAfter(first)).toBe(false);
  await store.storeEvent('a', message('x'.repeat(255_900)));
  expect(store.hasAllAfter(next)).toBe(false);
  const late = await store.storeEvent('b', message('x'));
  vi.advanceTimersByTime(5 * 60_000 + 1);
  store.forgetOld(performance.now());
  expect(store.hasAllAfter(late)).toBe(false);
});

test('of what is no event of it nothing is told', async () => {
  const store = new RecentEvents();
  await store.storeEvent('a', message('x'));
  for (const id of ['', 'nonsense', 'a.', 'a.0', 'b.1', 'a.9']) {
    expect(store.hasAllAfter(id)).toBe(false);
    expect((await replayed(store, id)).length).toBeLessThan(2);
  }
});
