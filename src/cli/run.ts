import { Reloads } from './reloads.ts';
import { ServiceManager } from './service-manager.ts';
import { askedToEnd, createBridge, type StartOptions } from './start.ts';

const STOP_WITHIN = 5000;
/** A service manager waits no longer for a line of many devices that do not answer; it gives up at 60 s (TimeoutStartSec). */
const FIRST_POLLS_WITHIN = 45_000;

export interface RunOptions extends StartOptions {
  /** Takes up the map again when a file of it changes. */
  readonly watch?: true;
}

/** The daemon: polls, and serves MCP over HTTP until it is told to stop. */
export async function run(files: readonly string[], options: RunOptions): Promise<void> {
  const { bridge, log } = await createBridge(files, options);
  const told = askedToEnd();
  const manager = await ServiceManager.find({ status: () => bridge.statusLine, stalledFor: () => bridge.stalledFor() }, log);
  const reloads = new Reloads(bridge, { files, log, onBegin: () => manager.reloading(), onEnd: () => manager.ready() });
  const hear = (): void => reloads.request();
  process.on('SIGHUP', hear);
  if (options.watch === true) reloads.watch();
  await bridge.listen();
  bridge.start();
  await Promise.race([bridge.firstPolls(FIRST_POLLS_WITHIN), told]);
  manager.ready();
  reloads.start();
  await told;
  manager.stopping();
  setTimeout(() => process.exit(1), STOP_WITHIN).unref();
  process.off('SIGHUP', hear);
  process.on('SIGHUP', () => undefined);
  await reloads.stop();
  await bridge.stop();
}
