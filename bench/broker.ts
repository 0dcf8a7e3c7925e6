import { type ChildProcess, fork, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TOPICS = 1000;
const RATE = 5000;
const SECONDS = Number(process.env.BROKER_SECONDS ?? 60);
const WARM_UP = 5;

/** What a process of the bench tells of itself. */
export interface Report {
  readonly cpu_ms: number;
  readonly messages: number;
  readonly heap_mb: number;
  readonly rss_mb: number;
  /** Newest value by topic. */
  readonly newest?: readonly number[];
}

/** 5,000 messages a second over 1,000 topics: the bridge's CPU time a message beside that of a bare subscriber, and its memory. */
export async function broker(): Promise<void> {
  if (!(await hasMosquitto())) {
    process.stdout.write('needs mosquitto; test/system-packages.sh installs it\n');
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-bench-'));
  const port = await freePort();
  writeFileSync(join(folder, 'mosquitto.conf'), `listener ${port} 127.0.0.1\nallow_anonymous true\nuser root\nmax_queued_messages 0\n`);
  const mosquitto = spawn('mosquitto', ['-c', join(folder, 'mosquitto.conf')], { stdio: 'ignore' });
  await new Promise(resolve => setTimeout(resolve, 500));
  const url = `mqtt://127.0.0.1:${port}`;
  const [bare, bridge] = [new Part('bare', url), new Part('bridge', url)];
  await Promise.all([bare.ready, bridge.ready]);
  const publisher = new Part('publisher', url);
  await publisher.ready;

  await wait(WARM_UP);
  const before = await Promise.all([bare.report(), bridge.report()]);
  const heaps: number[] = [];
  for (let second = 0; second < SECONDS; second++) {
    await wait(1);
    heaps.push((await bridge.report()).heap_mb);
  }
  const after = await Promise.all([bare.report(), bridge.report()]);
  const sent = await publisher.report('stop');
  await wait(1);
  const [ofBare, ofBridge] = await Promise.all([bare.report(), bridge.report('stop')]);
  for (const part of [bare, bridge, publisher]) part.kill();
  mosquitto.kill();
  rmSync(folder, { recursive: true, force: true });

  const each = (i: 0 | 1): number => ((after[i].cpu_ms - before[i].cpu_ms) * 1000) / (after[i].messages - before[i].messages);
  const quarter = Math.max(1, Math.floor(heaps.length / 4));
  const mean = (part: readonly number[]): number => part.reduce((sum, one) => sum + one, 0) / part.length;
  const [first, last] = [mean(heaps.slice(0, quarter)), mean(heaps.slice(-quarter))];
  const wrong = (sent.newest ?? []).filter((value, i) => ofBridge.newest?.[i] !== value).length;
  process.stdout.write(
    `${sent.messages} messages over ${TOPICS} topics in ${WARM_UP + SECONDS} s; the bare subscriber had ${ofBare.messages}, the bridge ${ofBridge.messages}\n`,
  );
  process.stdout.write(
    `CPU time a message: bare subscriber ${each(0).toFixed(1)} µs, bridge ${each(1).toFixed(1)} µs, ratio ${(each(1) / each(0)).toFixed(2)}\n`,
  );
  process.stdout.write(
    `bridge: heap in the first quarter ${first.toFixed(1)} MB, in the last ${last.toFixed(1)} MB, ratio ${(last / first).toFixed(3)}; resident ${ofBridge.rss_mb.toFixed(0)} MB\n`,
  );
  process.stdout.write(`points whose value is not the newest that was sent: ${wrong}\n`);
}

/** A process of its own, so that its CPU time is its own. */
class Part {
  readonly ready: Promise<unknown>;
  private readonly child: ChildProcess;

  constructor(role: 'bare' | 'bridge' | 'publisher', url: string) {
    const script = fileURLToPath(new URL('./broker-part.js', import.meta.url));
    this.child = fork(script, [role, url, String(TOPICS), String(RATE)], { execArgv: ['--expose-gc'] });
    this.ready = new Promise(resolve => this.child.once('message', resolve));
  }

  report(word: 'report' | 'stop' = 'report'): Promise<Report> {
    return new Promise(resolve => {
      this.child.once('message', message => resolve(message as Report));
      this.child.send(word);
    });
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }
}

const wait = (seconds: number): Promise<void> => new Promise(resolve => setTimeout(resolve, seconds * 1000));

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
