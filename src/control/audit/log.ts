import { type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Log } from '../../drivers/driver.ts';
import { systemReason } from '../../model/errors.ts';
import { type AuditRecord, GENESIS, type Head, type SealedRecord, seal, unseal } from './chain.ts';
import { ProcessLock } from './exclusive.ts';
import { AuditError, headPath, headText, keyPath, lockPath, readHead, readKey, rotatedPath } from './files.ts';
import { recordsOf } from './verify.ts';

/** No record is longer; so much is read to find the last one. */
const LONGEST = 1_000_000;
const HEAD_EVERY = 60_000;

export interface AuditSettings {
  readonly path: string;
  /** The file of the key; undefined: a credential of the service manager, else one beside the log. */
  readonly key?: string;
  /** Bytes at which a new file is begun. */
  readonly rotate: number;
}

interface Parts {
  readonly settings: AuditSettings;
  readonly key: Buffer;
  readonly lock: ProcessLock;
  readonly log: Log;
  readonly heads: FileHandle;
  readonly file: FileHandle;
  readonly size: number;
  readonly head: Head;
}

/**
 * The record of every write: append-only JSON lines, one chain of seals. An intent is on the disk before its request is
 * on the wire. Records are written one after the other, never two at once, and by one process.
 */
export class AuditLog {
  private readonly settings: AuditSettings;
  private readonly key: Buffer;
  private readonly lock: ProcessLock;
  private readonly log: Log;
  private readonly heads: FileHandle;
  private file: FileHandle;
  private size: number;
  private head: Head;
  private told = -1;
  private last: Promise<void> = Promise.resolve();
  private readonly teller: NodeJS.Timeout;

  private constructor(parts: Parts) {
    this.settings = parts.settings;
    this.key = parts.key;
    this.lock = parts.lock;
    this.log = parts.log;
    this.heads = parts.heads;
    this.file = parts.file;
    this.size = parts.size;
    this.head = parts.head;
    this.teller = setInterval(() => this.tellHead(), HEAD_EVERY);
    this.teller.unref();
  }

  /** @throws AuditError in words, where the log can not be written to, is another's, or does not end as it should */
  static async open(settings: AuditSettings, log: Log): Promise<AuditLog> {
    const { path } = settings;
    let lock: ProcessLock | undefined;
    let file: FileHandle | undefined;
    let opened: AuditLog | undefined;
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o750 });
      lock = ProcessLock.take(lockPath(path), `the audit file ${path}`);
      const key = readKey(keyPath(path, settings.key), true);
      file = await open(path, 'a+', 0o640);
      const heads = await open(headPath(path), 'a+', 0o640);
      await heads.close();
      const end = await endOf(file, key, path);
      opened = new AuditLog({
        settings,
        key,
        lock,
        log,
        heads: await open(headPath(path), 'r+'),
        file,
        size: end.size,
        head: end.head,
      });
      if (end.torn > 0) await opened.append({ kind: 'repaired', bytes: end.torn, what: 'a last line that was cut short was taken off' });
      opened.tellHead();
      return opened;
    } catch (error) {
      if (opened !== undefined) await opened.close();
      else {
        await file?.close();
        lock?.release();
      }
      if (error instanceof AuditError) throw error;
      throw new AuditError(`the audit file ${path} can not be opened: ${systemReason(error)}`);
    }
  }

  /** Resolves when the record is on the disk. @throws AuditError */
  append(record: AuditRecord): Promise<void> {
    const written = this.last.then(() => this.write(record));
    this.last = written.catch(() => undefined);
    return written;
  }

  /** What is on the disk, but for files that were not written to since then. */
  records(since: number): AsyncGenerator<SealedRecord> {
    return recordsOf(this.settings.path, this.key, since);
  }

  async close(): Promise<void> {
    clearInterval(this.teller);
    await this.last;
    this.tellHead();
    await this.file.close();
    await this.heads.close();
    this.lock.release();
  }

  private async write(record: AuditRecord): Promise<void> {
    const { line, head } = seal(this.key, this.head, new Date().toISOString(), record);
    const bytes = Buffer.from(`${line}\n`);
    try {
      if (this.size > 0 && this.size + bytes.length > this.settings.rotate) await this.rotate();
      const { bytesWritten } = await this.file.write(bytes);
      if (bytesWritten < bytes.length) throw new Error('the line could not be written whole');
      await this.file.datasync();
    } catch (error) {
      // What a full disk cut short is no record: the file ends where it ended before.
      await this.file.truncate(this.size).catch(() => undefined);
      throw new AuditError(`the audit file ${this.settings.path} can not be written: ${systemReason(error)}`);
    }
    this.size += bytes.length;
    this.head = head;
    // It may lag behind what is on the disk, never run ahead of it.
    await this.heads.write(`${headText(head).padEnd(90)}\n`, 0).catch(() => undefined);
  }

  /** A new file goes on with the chain where the old one ends. */
  private async rotate(): Promise<void> {
    const { path } = this.settings;
    const rotated = rotatedPath(path, this.head.n);
    await rename(path, rotated);
    let next: FileHandle;
    try {
      next = await open(path, 'a+', 0o640);
    } catch (error) {
      // No file descriptor, say: the old one goes on, and the next record tries again.
      await rename(rotated, path);
      throw error;
    }
    await this.file.close();
    this.file = next;
    this.size = 0;
    this.tellHead();
  }

  /** In the journal, where who can write this file can not reach: a log that was cut shows by it. */
  private tellHead(): void {
    if (this.told === this.head.n) return;
    this.told = this.head.n;
    this.log.info({ audit_head: headText(this.head) }, `the audit log has ${this.head.n} records`);
  }
}

/** The last record, which the next one goes on from, and what of a line that was cut short is behind it. */
async function endOf(file: FileHandle, key: Buffer, path: string): Promise<{ size: number; head: Head; torn: number }> {
  const { size } = await file.stat();
  const noted = readHead(path);
  const from = Math.max(0, size - LONGEST);
  const tail = Buffer.alloc(size - from);
  await file.read(tail, 0, tail.length, from);
  const end = tail.lastIndexOf('\n') + 1;
  const torn = tail.length - end;
  if (torn > 0) await file.truncate(size - torn);
  const start = tail.lastIndexOf('\n', end - 2) + 1;
  const line = tail.subarray(start, Math.max(start, end - 1)).toString();
  // After a rotation the file is empty, and the last record is the last of the one before.
  const head = line === '' ? noted : unseal(key, line)?.head;
  if (head === undefined)
    throw new AuditError(
      `the last record of the audit file ${path} was changed, or sealed with another key; see \`fieldbridge audit verify\`, and move the files away to begin anew`,
    );
  if (head.n < noted.n || (head.n === noted.n && head.mac !== noted.mac && noted.n !== GENESIS.n))
    throw new AuditError(
      `the audit file ${path} ends at record ${head.n}, but ${noted.n} were written: its end was cut off; see \`fieldbridge audit verify\`, and move the files away to begin anew`,
    );
  return { size: size - torn, head, torn };
}
