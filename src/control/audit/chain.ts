import { createHmac, timingSafeEqual } from 'node:crypto';

/** What a record says. Values are JSON; nothing in them can break out of its line. */
export interface AuditRecord {
  readonly kind: 'intent' | 'outcome' | 'refusal' | 'pending' | 'approval' | 'declined' | 'lock' | 'unlock' | 'repaired';
  readonly [field: string]: unknown;
}

/** A record as it stands in the file: numbered, timed, chained to the one before, and sealed. */
export type SealedRecord = AuditRecord & { readonly n: number; readonly time: string; readonly prev: string };

/** The last record of a log: its number, and the seal that the next one carries on. */
export interface Head {
  readonly n: number;
  readonly mac: string;
}

/** Before the first record. */
export const GENESIS: Head = { n: 0, mac: '0'.repeat(64) };

const SEAL = /,"mac":"([0-9a-f]{64})"\}$/;

/**
 * One line: JSON that carries the seal of the line before and ends in its own, an HMAC-SHA256 over everything before it.
 * Without the key no line can be changed, nor the chain made anew; a hash alone could be, by anybody who can write.
 */
export function seal(key: Buffer, head: Head, time: string, record: AuditRecord): { readonly line: string; readonly head: Head } {
  const n = head.n + 1;
  const body = JSON.stringify({ n, time, ...record, prev: head.mac }).slice(0, -1);
  const mac = macOf(key, body);
  return { line: `${body},"mac":"${mac}"}`, head: { n, mac } };
}

/** @returns undefined for a line that was not sealed with this key, or was changed since */
export function unseal(key: Buffer, line: string): { readonly record: SealedRecord; readonly head: Head } | undefined {
  const [end, mac] = SEAL.exec(line) ?? [];
  if (end === undefined || mac === undefined) return undefined;
  const body = line.slice(0, -end.length);
  if (!timingSafeEqual(Buffer.from(mac, 'hex'), Buffer.from(macOf(key, body), 'hex'))) return undefined;
  const record = JSON.parse(`${body}}`) as SealedRecord;
  return { record, head: { n: record.n, mac } };
}

const macOf = (key: Buffer, text: string): string => createHmac('sha256', key).update(text).digest('hex');
