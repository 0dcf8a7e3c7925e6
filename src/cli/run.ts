import { Bridge } from '../bridge.ts';
import { readConfigAloud } from './config.ts';
import { createLog } from './log.ts';
import { packageVersion } from './version.ts';

const STOP_WITHIN = 5000;

export interface RunOptions {
  readonly readOnly?: true;
}

/** The daemon: polls, and serves MCP over HTTP until it is told to stop. */
export async function run(files: readonly string[], options: RunOptions): Promise<void> {
  const config = readConfigAloud(files);
  const log = createLog(config.log.level);
  const bridge = await Bridge.create(config, { version: packageVersion(), readOnly: options.readOnly === true, log });
  await bridge.listen();
  bridge.start();
  const signal = await new Promise<string>(resolve => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => resolve(name));
  });
  log.info({ signal }, 'stopping');
  setTimeout(() => process.exit(1), STOP_WITHIN).unref();
  await bridge.stop();
}
