import type { SealedRecord } from '../control/audit/chain.ts';
import { headText, keyPath, parseHead, readKey } from '../control/audit/files.ts';
import type { AuditSettings } from '../control/audit/log.ts';
import { recordsOf, verifyLog } from '../control/audit/verify.ts';
import { escapeControls } from '../model/text.ts';
import { readConfigAloud } from './config.ts';

export interface VerifyOptions {
  readonly head?: readonly string[];
}

function logOf(files: readonly string[]): { readonly settings: AuditSettings; readonly key: Buffer } {
  const { audit: settings } = readConfigAloud(files).safety;
  return { settings, key: readKey(keyPath(settings.path, settings.key), false) };
}

/** Says whether the record of writes is whole. Ends with 1 where it is not. */
export async function verify(files: readonly string[], { head = [] }: VerifyOptions): Promise<void> {
  const known = head.map(text => {
    const parsed = parseHead(text);
    if (parsed === undefined) throw new Error(`--head: a head as the journal has it, NUMBER:SEAL, is expected, got ${text}`);
    return parsed;
  });
  const { settings, key } = logOf(files);
  const { head: last, records, flaws } = await verifyLog(settings.path, key, known);
  for (const { file, line, what } of flaws) process.stdout.write(`${file}:${line}: ${what}\n`);
  if (flaws.length > 0) process.exitCode = 1;
  process.stdout.write(
    flaws.length > 0
      ? `${flaws.length} flaw${flaws.length === 1 ? '' : 's'} in the audit log\n`
      : `OK: ${records} records, the last ${headText(last)}\n`,
  );
}

/** The last records, for people. */
export async function tail(files: readonly string[], { lines }: { readonly lines: number }): Promise<void> {
  const { settings, key } = logOf(files);
  const last: SealedRecord[] = [];
  for await (const record of recordsOf(settings.path, key)) {
    last.push(record);
    if (last.length > lines) last.shift();
  }
  for (const record of last) process.stdout.write(`${sentence(record)}\n`);
}

/** Everything about one write. Ends with 1 where there is nothing. */
export async function show(file: string, id: string, more: readonly string[]): Promise<void> {
  const { settings, key } = logOf([file, ...more]);
  let found = 0;
  for await (const record of recordsOf(settings.path, key)) {
    if (record.audit_id !== id) continue;
    found++;
    process.stdout.write(`${JSON.stringify(record, null, 2).split('\n').map(escapeControls).join('\n')}\n`);
  }
  if (found === 0) throw new Error(`there is no record of ${id}`);
}

function sentence(record: SealedRecord): string {
  const { n, time, kind, point, status, requested, before, after, principal, client, approver, rule, reason, why, audit_id } =
    record as Record<string, unknown>;
  const parts = [
    `${n} ${time} ${kind}`,
    point,
    status,
    requested === undefined ? undefined : `${JSON.stringify(before ?? null)} -> ${JSON.stringify(requested)}`,
    after === undefined ? undefined : `now ${JSON.stringify(after)}`,
    rule === undefined ? undefined : `rule ${rule}`,
    principal === undefined ? undefined : `by ${principal}${client === undefined ? '' : ` (${client})`}`,
    approver === undefined ? undefined : `approver ${approver}`,
    why === undefined ? undefined : `why: ${why}`,
    reason,
    audit_id,
  ];
  return escapeControls(parts.filter(part => part !== undefined).join('  '));
}
