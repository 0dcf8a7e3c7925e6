import { fstatSync } from 'node:fs';
import pino, { type DestinationStream } from 'pino';
import { FoldedLog } from './folded-log.ts';

/** JSON lines on standard error; on a terminal, lines for people. Standard output is the protocol's. What repeats itself is folded. */
export async function createLog(level: string): Promise<FoldedLog> {
  const options = {
    level,
    base: null,
    redact: { paths: ['password', 'token', 'authorization', '*.password', '*.token', '*.authorization'], censor: '[redacted]' },
  };
  return new FoldedLog(pino(options, await destination()));
}

async function destination(): Promise<DestinationStream> {
  if (process.stderr.isTTY) {
    const { default: pretty } = await import('pino-pretty');
    return pretty({ destination: 2, sync: true, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss' });
  }
  const out = pino.destination({ fd: 2, sync: true });
  return isJournal() ? { write: line => void out.write(`<${priorityOf(line)}>${line}`) } : out;
}

/** Whether standard error is the journal's own stream (systemd.exec(5), JOURNAL_STREAM). */
function isJournal(): boolean {
  const { JOURNAL_STREAM } = process.env;
  if (JOURNAL_STREAM === undefined) return false;
  const { dev, ino } = fstatSync(2);
  return JOURNAL_STREAM === `${dev}:${ino}`;
}

/** The priority of a line for the journal (sd-daemon(3)). */
function priorityOf(line: string): number {
  const level = Number(/^\{"level":(\d+)/.exec(line)?.[1] ?? 30);
  if (level >= 60) return 2;
  if (level >= 50) return 3;
  if (level >= 40) return 4;
  return level >= 30 ? 6 : 7;
}
