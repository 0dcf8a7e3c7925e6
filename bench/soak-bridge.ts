import { monitorEventLoopDelay } from 'node:perf_hooks';
import pino from 'pino';
import { Bridge } from '../src/bridge.ts';
import { readConfig } from '../src/protocols.ts';

/** The bridge of a soak, in a process of its own: says its endpoint, and what it takes when it is asked. */
export interface BridgeReport {
  /** Bytes after a collection. */
  readonly heap: number;
  readonly rss: number;
  /** Milliseconds since the last report. */
  readonly lag: { readonly p99: number; readonly max: number };
  readonly resources: number;
  readonly unhandled: readonly string[];
}

const unhandled: string[] = [];
for (const event of ['unhandledRejection', 'uncaughtException'] as const)
  process.on(event, (error: unknown) => void unhandled.push(String(error)));

const config = readConfig(process.argv.slice(2));
const bridge = await Bridge.create(config, { version: '0', readOnly: false, log: pino({ level: 'silent' }) });
const endpoint = await bridge.listen();
bridge.start();
const lag = monitorEventLoopDelay({ resolution: 10 });
lag.enable();
process.send?.(endpoint);
process.on('message', (word: string) => {
  if (word === 'stop') {
    void bridge.stop().then(() => {
      process.send?.({ unhandled });
      process.exit(0);
    });
    return;
  }
  const told = { p99: lag.percentile(99) / 1e6, max: lag.max / 1e6 };
  globalThis.gc?.();
  const { heapUsed: heap, rss } = process.memoryUsage();
  lag.reset();
  process.send?.({ heap, rss, lag: told, resources: process.getActiveResourcesInfo().length, unhandled } satisfies BridgeReport);
});
