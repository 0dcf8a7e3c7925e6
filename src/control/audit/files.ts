import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { systemReason } from '../../model/errors.ts';
import { GENESIS, type Head } from './chain.ts';

export class AuditError extends Error {}

const KEY = /^[0-9a-f]{64}$/;
/** The name of the key as a credential of the service manager. */
const CREDENTIAL = 'fieldbridge-audit-key';

/** Where things are, beside the audit file. */
export const headPath = (path: string): string => `${path}.head`;
export const lockPath = (path: string): string => `${path}.lock`;
export const rotatedPath = (path: string, last: number): string => `${path}.${String(last).padStart(10, '0')}`;

/** The files of a log in the order of their records, the one that is written to last. */
export function filesOf(path: string): string[] {
  const folder = dirname(path);
  const rotated = existsSync(folder)
    ? readdirSync(folder)
        .filter(name => name.startsWith(`${basename(path)}.`) && /\.\d{10}$/.test(name))
        .sort()
        .map(name => join(folder, name))
    : [];
  return existsSync(path) ? [...rotated, path] : rotated;
}

/** @param given a file that the map names. @returns the place of the key: the map's, the service manager's, or beside the log */
export function keyPath(path: string, given: string | undefined): string {
  const credentials = process.env.CREDENTIALS_DIRECTORY;
  const credential = credentials === undefined ? undefined : join(credentials, CREDENTIAL);
  return given ?? (credential !== undefined && existsSync(credential) ? credential : `${path}.key`);
}

/** The key of the seals: 256 bits in hexadecimal. @param make makes one where there is none. @throws AuditError */
export function readKey(path: string, make: boolean): Buffer {
  try {
    if (make && !existsSync(path)) writeFileSync(path, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
    const text = readFileSync(path, 'utf8').trim();
    if (!KEY.test(text)) throw new AuditError(`the audit key ${path} is no key: 64 hexadecimal digits are expected`);
    return Buffer.from(text, 'hex');
  } catch (error) {
    if (error instanceof AuditError) throw error;
    throw new AuditError(`the audit key ${path} can not be read: ${systemReason(error)}`);
  }
}

/** The head that was noted beside the log: a log that ends before it has lost its end. */
export function readHead(path: string): Head {
  try {
    return parseHead(readFileSync(headPath(path), 'utf8').trimEnd()) ?? GENESIS;
  } catch {
    return GENESIS;
  }
}

/** Undefined for what is no head's text. */
export function parseHead(text: string): Head | undefined {
  const [, n, mac] = /^(\d+):([0-9a-f]{64})$/.exec(text) ?? [];
  return n === undefined || mac === undefined ? undefined : { n: Number(n), mac };
}

export const headText = ({ n, mac }: Head): string => `${n}:${mac}`;
