import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { AuditError } from './files.ts';

/** One writer at a time: two would break the chain. Held by a process, and let go with it. */
export class ProcessLock {
  private readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /** @param what is locked, in words. @throws AuditError where another process has it */
  static take(path: string, what: string): ProcessLock {
    const mine = identityOf(process.pid) ?? String(process.pid);
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        writeFileSync(path, mine, { flag: 'wx', mode: 0o640 });
        return new ProcessLock(path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      const holder = readQuietly(path);
      const pid = Number(holder?.split(' ')[0]);
      if (holder !== undefined && holder !== '' && identityOf(pid) === holder && pid !== process.pid)
        throw new AuditError(`${what} is in use by process ${pid}; stop it first, or let it do the work`);
      if (holder !== undefined && pid === process.pid && identityOf(pid) === holder)
        throw new AuditError(`${what} is in use by this process already`);
      // Whoever held it has gone.
      rmSync(path, { force: true });
    }
    throw new AuditError(`${what} can not be locked (${path})`);
  }

  release(): void {
    rmSync(this.path, { force: true });
  }
}

/** A process by its number and, where the system tells, its start: numbers are used again. */
function identityOf(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  // Field 22 of proc(5), counted after the name, which may hold anything.
  const stat = readQuietly(`/proc/${pid}/stat`);
  const start = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  if (start !== undefined) return `${pid} ${start}`;
  try {
    process.kill(pid, 0);
    return String(pid);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? String(pid) : undefined;
  }
}

function readQuietly(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
