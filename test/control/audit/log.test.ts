import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import pino from 'pino';
import { expect, test, vi } from 'vitest';
import { GENESIS, type Head, seal } from '../../../src/control/audit/chain.ts';
import { AuditError, filesOf, headPath, keyPath, readKey, rotatedPath } from '../../../src/control/audit/files.ts';
import { AuditLog } from '../../../src/control/audit/log.ts';
import { type Flaw, verifyLog } from '../../../src/control/audit/verify.ts';
import { temporaryFolder } from '../../support/bridge.ts';

const silent = pino({ level: 'silent' });
const place = (...parts: string[]) => join(temporaryFolder(), ...parts, 'audit.jsonl');
const open = (path: string, rotate = 1_000_000, log = silent) => AuditLog.open({ path, rotate }, log);
const verified = (path: string, known: readonly Head[] = []) => verifyLog(path, readKey(keyPath(path, undefined), false), known);
const linesOf = (path: string): string[] => readFileSync(path, 'utf8').trimEnd().split('\n');

async function filled(path: string, count: number, rotate?: number): Promise<void> {
  const log = await open(path, rotate);
  for (let i = 0; i < count; i++) await log.append({ kind: 'intent', audit_id: String(i), point: 'd.valve' });
  await log.close();
}

test('records are lines in the order in which they were made, and nothing in them can forge one', async () => {
  const path = place('deep');
  const log = await open(path);
  await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      log.append({ kind: 'intent', audit_id: String(i), why: `a\n{"kind":"outcome"}\r\u2028","mac":"${'0'.repeat(64)}"}` }),
    ),
  );
  await log.close();
  const records = linesOf(path).map(line => JSON.parse(line) as { audit_id: string; n: number });
  expect(records.map(({ audit_id }) => audit_id)).toEqual(Array.from({ length: 50 }, (_, i) => String(i)));
  expect(records.map(({ n }) => n)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
  expect(await verified(path)).toMatchObject({ records: 50, flaws: [] });
  expect(statSync(keyPath(path, undefined)).mode & 0o777).toBe(0o600);
});

test('a log goes on where it ended, across starts and across files', async () => {
  const path = place();
  await filled(path, 10, 1000);
  await filled(path, 10, 1000);
  expect(filesOf(path).length).toBeGreaterThan(3);
  for (const file of filesOf(path)) expect(statSync(file).size).toBeLessThanOrEqual(1000);
  expect(await verified(path)).toMatchObject({ records: 20, flaws: [], head: { n: 20 } });
});

test('a last line that a full disk cut short is taken off as the log is opened, and that is recorded', async () => {
  const path = place();
  await filled(path, 2);
  appendFileSync(path, '{"n":3,"time":"2026-');
  await filled(path, 1);
  expect(linesOf(path).map(line => (JSON.parse(line) as { kind: string }).kind)).toEqual(['intent', 'intent', 'repaired', 'intent']);
  expect(await verified(path)).toMatchObject({ records: 4, flaws: [] });
});

test('a disk that is full is told in words, and the next record follows the last whole one', async () => {
  const full = place();
  const log = await open(full);
  await log.append({ kind: 'intent', audit_id: '1' });
  const file = (log as unknown as { file: { write(bytes: Buffer): Promise<{ bytesWritten: number }> } }).file;
  const write = file.write.bind(file);
  // As a disk does it that is full in the middle of a line.
  vi.spyOn(file, 'write').mockImplementationOnce(async bytes => {
    await write(bytes.subarray(0, 20));
    throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
  });
  await expect(log.append({ kind: 'outcome', audit_id: '1' })).rejects.toThrow(
    `the audit file ${full} can not be written: the disk is full`,
  );
  await log.append({ kind: 'outcome', audit_id: '2' });
  await log.close();
  expect(await verified(full)).toMatchObject({ records: 2, flaws: [] });
});

test('one process writes, and no other log or process beside it', async () => {
  const path = place();
  const log = await open(path);
  await expect(open(path)).rejects.toThrow(/the audit file .* is in use by this process/);
  await log.close();
  // A process that has gone holds nothing.
  writeFileSync(`${path}.lock`, '999999999 1');
  const again = await open(path);
  await again.close();
  writeFileSync(`${path}.lock`, `1 ${readFileSync('/proc/1/stat', 'utf8').split(') ')[1]?.split(' ')[19]}`);
  await expect(open(path)).rejects.toThrow(/is in use by process 1; stop it first/);
});

test('a log that does not end as it should is not written to', async () => {
  const path = place();
  await filled(path, 5);
  const whole = readFileSync(path, 'utf8');
  const lines = linesOf(path);
  writeFileSync(path, `${lines.slice(0, 3).join('\n')}\n`);
  await expect(open(path)).rejects.toThrow(/ends at record 3, but 5 were written: its end was cut off/);
  writeFileSync(path, whole.replace('"audit_id":"4"', '"audit_id":"9"'));
  await expect(open(path)).rejects.toThrow(/the last record .* was changed, or sealed with another key/);
  writeFileSync(path, whole);
  writeFileSync(keyPath(path, undefined), `${'ab'.repeat(32)}\n`);
  await expect(open(path)).rejects.toThrow(/sealed with another key/);
  writeFileSync(keyPath(path, undefined), 'nonsense');
  await expect(open(path)).rejects.toThrow(AuditError);
  expect(existsSync(`${path}.lock`)).toBe(false);
});

test('what could not be opened leaves no file open, however often it is tried', async () => {
  const path = place();
  await filled(path, 3);
  writeFileSync(path, `${linesOf(path).slice(0, 2).join('\n')}\n{"n":9}\n`);
  const openFiles = (): string[] =>
    readdirSync('/proc/self/fd').flatMap(fd => (existsSync(`/proc/self/fd/${fd}`) ? [readlinkSync(`/proc/self/fd/${fd}`)] : []));
  for (let i = 0; i < 3; i++) await expect(open(path)).rejects.toThrow(AuditError);
  expect(openFiles().filter(name => name.startsWith(path))).toEqual([]);
});

test('where a new file can not be begun the record is refused, and one after it begins it', async () => {
  const path = place();
  const log = await open(path, 1000);
  const record = { kind: 'intent', audit_id: 'a', point: 'd.valve' } as const;
  let written = 0;
  while (statSync(path).size < 700) {
    await log.append(record);
    written++;
  }
  const inTheWay = rotatedPath(path, written);
  mkdirSync(join(inTheWay, 'full'), { recursive: true });
  const tooMuch = { ...record, point: 'x'.repeat(400) };
  await expect(log.append(tooMuch)).rejects.toThrow('can not be written');
  rmSync(inTheWay, { recursive: true });
  await log.append(tooMuch);
  await log.close();
  expect(filesOf(path)).toHaveLength(2);
  expect(await verified(path)).toMatchObject({ records: written + 1, flaws: [] });
});

test('the head goes to the journal as the log is opened, every minute while it grows, and at the end', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const heads: unknown[] = [];
  const log = { ...silent, debug: () => undefined, warn: () => undefined, info: (fields: object) => void heads.push(fields) };
  const path = place();
  const audit = await AuditLog.open({ path, rotate: 1_000_000 }, log);
  await audit.append({ kind: 'intent', audit_id: '1' });
  vi.advanceTimersByTime(180_000);
  await audit.append({ kind: 'outcome', audit_id: '1' });
  await audit.close();
  vi.useRealTimers();
  expect(heads.map(head => (head as { audit_head: string }).audit_head.split(':')[0])).toEqual(['0', '1', '2']);
  // What the journal has, no forger of the files can make fit.
  const [, , last] = heads as { audit_head: string }[];
  const [n, mac] = last?.audit_head.split(':') ?? [];
  expect(await verified(path, [{ n: Number(n), mac: mac ?? '' }])).toMatchObject({ flaws: [] });
  expect((await verified(path, [{ n: 2, mac: 'f'.repeat(64) }])).flaws).toHaveLength(1);
  expect((await verified(path, [{ n: 7, mac: 'f'.repeat(64) }])).flaws[0]?.what).toContain('7 were written');
});

/** A log made at once: what is on the disk is the same as if each record had been appended. */
function makeLog(count: number): { path: string; lines: string[] } {
  const path = place();
  const key = readKey(keyPath(path, undefined), true);
  const lines: string[] = [];
  let head = GENESIS;
  for (let i = 0; i < count; i++) {
    const sealed = seal(key, head, '2026-01-31T08:00:00.000Z', {
      kind: 'intent',
      audit_id: String(i),
      point: `d.p${i % 100}`,
      requested: i,
    });
    lines.push(sealed.line);
    head = sealed.head;
  }
  writeFileSync(headPath(path), `${head.n}:${head.mac}\n`);
  return { path, lines };
}

const damages: Readonly<Record<string, (lines: readonly string[], at: number, more: number) => readonly string[]>> = {
  'a character changed': (lines, at, more) =>
    lines.map((line, i) => {
      if (i !== at) return line;
      const place = more % line.length;
      return line.slice(0, place) + (line[place] === '5' ? '6' : '5') + line.slice(place + 1);
    }),
  'a record removed': (lines, at) => lines.filter((_, i) => i !== at),
  'two records swapped': (lines, at) => {
    const other = at + 1 < lines.length ? at + 1 : at - 1;
    return lines.map((line, i) => (i === at ? (lines[other] ?? '') : i === other ? (lines[at] ?? '') : line));
  },
  'a record repeated': (lines, at) => [...lines.slice(0, at), lines[at] ?? '', ...lines.slice(at)],
  'the end cut off': (lines, at) => lines.slice(0, at),
};

/** Damages it, and looks whether that is found: at the place, or at the next record, which then does not carry on. */
async function findsDamage(log: ReturnType<typeof makeLog>, kind: string, at: number, more: number): Promise<void> {
  const damaged = damages[kind]?.(log.lines, at, more) ?? [];
  writeFileSync(log.path, damaged.map(line => `${line}\n`).join(''));
  const { flaws } = await verified(log.path);
  expect(flaws.length).toBeGreaterThan(0);
  expect(Math.abs((flaws[0] as Flaw).line - 1 - at)).toBeLessThanOrEqual(1);
}

test.each(Object.keys(damages))('it finds %s, wherever it is', async kind => {
  const log = makeLog(200);
  await fc.assert(fc.asyncProperty(fc.nat(199), fc.nat(10_000), (at, more) => findsDamage(log, kind, at, more)));
});

test('a whole log of 100,000 records is found to be whole, and any damage to it is found', async () => {
  const log = makeLog(100_000);
  writeFileSync(log.path, `${log.lines.join('\n')}\n`);
  expect(await verified(log.path)).toMatchObject({ records: 100_000, flaws: [] });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...Object.keys(damages)), fc.nat(99_999), fc.nat(10_000), (kind, at, more) =>
      findsDamage(log, kind, at, more),
    ),
    { numRuns: 2 },
  );
});

test('nothing is left beside the log but its key and its head', async () => {
  const path = place();
  await filled(path, 1);
  expect(readdirSync(join(path, '..')).sort()).toEqual(['audit.jsonl', 'audit.jsonl.head', 'audit.jsonl.key']);
});
