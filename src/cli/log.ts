import pino, { type Logger } from 'pino';
import pretty from 'pino-pretty';

/** JSON lines on standard error; on a terminal, lines for people. Standard output is the protocol's. */
export function createLog(level: string): Logger {
  const options = {
    level,
    base: null,
    redact: { paths: ['password', 'token', 'authorization', '*.password', '*.token', '*.authorization'], censor: '[redacted]' },
  };
  if (process.stderr.isTTY)
    return pino(options, pretty({ destination: 2, sync: true, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss' }));
  return pino(options, pino.destination({ fd: 2, sync: true }));
}
