import type { Bridge, BridgeLog } from '../bridge.ts';
import { readConfigAloud } from './config.ts';
import { packageVersion } from './version.ts';

export interface StartOptions {
  readonly readOnly?: true;
  /** Logs only what is amiss: for commands whose output is for people. */
  readonly quiet?: true;
  /** A file for every message of every client. */
  readonly trace?: string;
  /** A command beside a daemon. */
  readonly visiting?: true;
}

/** A bridge as the files describe it, not started yet. A mistaken file ends this before anything else is loaded. */
export async function createBridge(
  files: readonly string[],
  options: StartOptions,
): Promise<{ readonly bridge: Bridge; readonly log: BridgeLog }> {
  const config = readConfigAloud(files);
  const [{ Bridge }, { createLog }] = await Promise.all([import('../bridge.ts'), import('./log.ts')]);
  const log = await createLog(options.quiet === true ? 'warn' : config.log.level);
  const bridge = await Bridge.create(config, {
    version: packageVersion(),
    readOnly: options.readOnly === true,
    visiting: options.visiting === true,
    ...(options.trace !== undefined && { trace: options.trace }),
    log,
  });
  return { bridge, log };
}

/** Resolves when the process is asked to end. */
export function askedToEnd(): Promise<string> {
  return new Promise(resolve => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => resolve(name));
  });
}
