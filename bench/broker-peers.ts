import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Part } from './part.ts';

/** What a process of the bench tells of itself. */
export interface Report {
  readonly cpu_ms: number;
  readonly messages: number;
  readonly heap_mb: number;
  readonly rss_mb: number;
  /** Newest value by topic. */
  readonly newest?: readonly number[];
}

export class BrokerPart extends Part<Report> {
  constructor(role: string, url: string, topics: number, rate: number) {
    super('broker-part.js', [role, url, String(topics), String(rate)]);
  }
}

/** A broker on any free port; undefined, and said so, where there is no mosquitto. */
export async function startMosquitto(): Promise<{ readonly url: string; stop(): void } | undefined> {
  if (!(await hasMosquitto())) {
    process.stdout.write('needs mosquitto; test/system-packages.sh installs it\n');
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-bench-'));
  const port = await freePort();
  writeFileSync(join(folder, 'mosquitto.conf'), `listener ${port} 127.0.0.1\nallow_anonymous true\nuser root\nmax_queued_messages 0\n`);
  const child = spawn('mosquitto', ['-c', join(folder, 'mosquitto.conf')], { stdio: 'ignore' });
  await new Promise(resolve => setTimeout(resolve, 500));
  const stop = (): void => {
    child.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: `mqtt://127.0.0.1:${port}`, stop };
}

function hasMosquitto(): Promise<boolean> {
  const child = spawn('mosquitto', ['-h'], { stdio: 'ignore' });
  return new Promise(resolve => {
    child.on('error', () => resolve(false));
    child.on('close', () => resolve(true));
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise(resolve => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
