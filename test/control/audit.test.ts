import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AuditError, AuditLog } from '../../src/control/audit.ts';
import { temporaryFolder } from '../support/bridge.ts';

test('records are lines in the order in which they were made, and nothing in them can forge one', async () => {
  const path = join(temporaryFolder(), 'deep', 'audit.jsonl');
  const log = await AuditLog.open(path);
  await Promise.all(
    Array.from({ length: 50 }, (_, i) => log.append({ kind: 'intent', audit_id: String(i), why: 'a\n{"kind":"outcome"}\r\u2028' })),
  );
  await log.close();
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  expect(lines).toHaveLength(50);
  expect(lines.map(line => (JSON.parse(line) as { audit_id: string }).audit_id)).toEqual(Array.from({ length: 50 }, (_, i) => String(i)));
});

test('a torn last line stays what it is, and the next record starts on a line of its own', async () => {
  const path = join(temporaryFolder(), 'audit.jsonl');
  appendFileSync(path, '{"kind":"intent","audit_id":"0"}\n{"kind":"outc');
  const log = await AuditLog.open(path);
  await log.append({ kind: 'outcome', audit_id: '1' });
  await log.close();
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  expect(lines).toHaveLength(3);
  expect(JSON.parse(lines[2] ?? '')).toMatchObject({ audit_id: '1' });
});

test('a disk that is full is told in words', async () => {
  const log = await AuditLog.open('/dev/full');
  await expect(log.append({ kind: 'intent', audit_id: '1' })).rejects.toThrow(AuditError);
  await expect(log.append({ kind: 'intent', audit_id: '1' })).rejects.toThrow(
    'the audit file /dev/full can not be written: the disk is full',
  );
  await log.close();
});
