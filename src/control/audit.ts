import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemReason } from '../model/errors.ts';

/** One line of the audit file. Values are JSON; nothing in them can break out of its line. */
export interface AuditRecord {
  readonly kind: 'intent' | 'outcome' | 'refusal';
  readonly audit_id: string;
  readonly [field: string]: unknown;
}

export class AuditError extends Error {}

/**
 * The record of every write: append-only JSON lines. An intent is on the disk before its request is on the wire.
 * Records are written one after the other, never two at once.
 */
export class AuditLog {
  readonly path: string;
  private readonly file: FileHandle;
  private last: Promise<void> = Promise.resolve();
  private torn = false;

  private constructor(path: string, file: FileHandle, torn: boolean) {
    this.path = path;
    this.file = file;
    this.torn = torn;
  }

  /** @throws AuditError in words, where the file can not be opened */
  static async open(path: string): Promise<AuditLog> {
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o750 });
      const file = await open(path, 'a+', 0o640);
      const { size } = await file.stat();
      const last = Buffer.alloc(1);
      if (size > 0) await file.read(last, 0, 1, size - 1);
      return new AuditLog(path, file, size > 0 && last.toString() !== '\n');
    } catch (error) {
      throw new AuditError(`the audit file ${path} can not be opened: ${systemReason(error)}`);
    }
  }

  /** Resolves when the record is on the disk. @throws AuditError */
  append(record: AuditRecord): Promise<void> {
    const line = `${JSON.stringify({ time: new Date().toISOString(), ...record })}\n`;
    const written = this.last.then(() => this.write(line));
    this.last = written.catch(() => undefined);
    return written;
  }

  async close(): Promise<void> {
    await this.last;
    await this.file.close();
  }

  private async write(line: string): Promise<void> {
    try {
      // A line that a full disk cut short stays what it is; the next one starts on a line of its own.
      const { bytesWritten } = await this.file.write(this.torn ? `\n${line}` : line);
      this.torn = bytesWritten < Buffer.byteLength(line);
      if (this.torn) throw new Error('the line could not be written whole');
      await this.file.datasync();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== undefined) this.torn = true;
      throw new AuditError(`the audit file ${this.path} can not be written: ${systemReason(error)}`);
    }
  }
}
