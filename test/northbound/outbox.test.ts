import { readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Outbox } from '../../src/northbound/outbox.ts';
import { temporaryFolder, until } from '../support/bridge.ts';

async function all<T>(outbox: Outbox<T>): Promise<T[]> {
  const records: T[] = [];
  for (let batch = await outbox.peek(); batch !== undefined; batch = await outbox.peek()) {
    records.push(...batch.entries.filter(entry => !entry.isDone).map(entry => entry.record));
    outbox.finish(batch);
  }
  return records;
}

test('what was pushed comes out in order, whatever was put back, closed and opened in between', async () => {
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('push' as const), count: fc.integer({ min: 1, max: 30 }) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('take' as const), count: fc.integer({ min: 0, max: 10 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('reopen' as const), count: fc.constant(0) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async steps => {
      const folder = temporaryFolder();
      let outbox = new Outbox<number>(folder, 100_000_000);
      await outbox.open();
      let next = 0;
      const expected: number[] = [];
      for (const { kind, count } of steps) {
        if (kind === 'push')
          for (let i = 0; i < count; i++) {
            outbox.push(next);
            expected.push(next++);
          }
        if (kind === 'take') {
          // The whole batch is sent: some arrive, the rest is lost on the way and put back.
          const batch = await outbox.peek();
          if (batch !== undefined) {
            const records = batch.entries.map(entry => entry.record);
            outbox.finish(batch);
            outbox.unshift(records.slice(count));
            expected.splice(0, Math.min(count, records.length));
          }
        }
        if (kind === 'reopen') {
          await outbox.close();
          outbox = new Outbox<number>(folder, 100_000_000);
          await outbox.open();
        }
        expect(outbox.waiting).toBe(expected.length);
      }
      expect(await all(outbox)).toEqual(expected);
      expect(outbox.isEmpty).toBe(true);
      await outbox.close();
      expect(readdirSync(folder)).toEqual([]);
      expect(outbox.dropped).toBe(0);
    }),
    { numRuns: 60 },
  );
});

test('bounded on the disk: the oldest goes and is counted, the newest stays', async () => {
  const folder = temporaryFolder();
  const outbox = new Outbox<{ i: number; pad: string }>(folder, 20_000);
  await outbox.open();
  for (let i = 0; i < 1000; i++) {
    outbox.push({ i, pad: 'x'.repeat(80) });
    if (i % 50 === 49) await outbox.close();
  }
  await outbox.close();
  const onDisk = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  expect(onDisk).toBeLessThanOrEqual(20_000);
  expect(onDisk).toBeGreaterThan(10_000);
  expect(outbox.bytes).toBe(onDisk);
  const kept = (await all(outbox)).map(record => record.i);
  expect(outbox.dropped + kept.length).toBe(1000);
  expect(kept).toEqual(Array.from({ length: kept.length }, (_, n) => 1000 - kept.length + n));
});

test('a line that a crash cut short is left out and counted; everything else comes', async () => {
  const folder = temporaryFolder();
  const first = new Outbox<number>(folder, 100_000);
  await first.open();
  for (let i = 0; i < 10; i++) first.push(i);
  await first.close();
  const [name = ''] = readdirSync(folder);
  truncateSync(join(folder, name), statSync(join(folder, name)).size - 2);
  writeFileSync(join(folder, 'notes.txt'), 'not ours');
  const again = new Outbox<number>(folder, 100_000);
  await again.open();
  again.push(10);
  const records = await all(again);
  expect(records.slice(0, 9)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  expect(records.at(-1)).toBe(10);
  expect(readdirSync(folder)).toEqual(['notes.txt']);
});

test('a disk that would not: told and counted, and nothing piles up in memory; once it does again, so does the store', async () => {
  const folder = join(temporaryFolder(), 'gone');
  const outbox = new Outbox<number>(folder, 100_000);
  await outbox.open();
  rmSync(folder, { recursive: true });
  for (let i = 0; i < 10; i++) outbox.push(i);
  await outbox.close();
  expect(outbox).toMatchObject({ dropped: 10, waiting: 0, bytes: 0, trouble: expect.stringContaining('there is no such file') });
  await outbox.open();
  outbox.push(11);
  await until(
    () => outbox.trouble,
    trouble => trouble === undefined,
  );
  expect(await all(outbox)).toEqual([11]);
});

test('nothing is kept where nothing is to be kept', async () => {
  const outbox = new Outbox<number>('', 0);
  await outbox.open();
  outbox.push(1);
  outbox.unshift([2, 3]);
  expect(outbox).toMatchObject({ dropped: 3, waiting: 0, isEmpty: true });
  expect(await outbox.peek()).toBeUndefined();
});

test('what is being read from the disk waits too', async () => {
  const folder = temporaryFolder();
  const first = new Outbox<number>(folder, 100_000);
  await first.open();
  for (const record of [1, 2, 3]) first.push(record);
  await first.close();
  const outbox = new Outbox<number>(folder, 100_000);
  await outbox.open();
  const { bytes } = outbox;
  const reading = outbox.peek();
  expect(outbox).toMatchObject({ waiting: 3, bytes, isEmpty: false });
  await reading;
  expect(outbox).toMatchObject({ waiting: 3, bytes, isEmpty: false });
  expect(await all(outbox)).toEqual([1, 2, 3]);
  expect(outbox).toMatchObject({ waiting: 0, bytes: 0, isEmpty: true });
});

test('what is dropped is the oldest, also while that is being read from the disk', async () => {
  const outbox = new Outbox<number>(temporaryFolder(), 60);
  await outbox.open();
  // Files of four records.
  for (let record = 10; record < 30; record += 4) {
    for (let i = 0; i < 4; i++) outbox.push(record + i);
    await outbox.close();
  }
  const reading = outbox.peek();
  outbox.push(30);
  outbox.push(31);
  expect(outbox).toMatchObject({ waiting: 22, dropped: 0 });
  await outbox.close();
  await reading;
  expect(outbox).toMatchObject({ waiting: 18, dropped: 4, bytes: 54 });
  expect(await all(outbox)).toEqual(Array.from({ length: 18 }, (_, i) => 14 + i));
});
