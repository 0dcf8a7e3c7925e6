import { Bridge } from '../bridge.ts';
import { readConfigAloud } from './config.ts';
import { createLog } from './log.ts';
import type { RunOptions } from './run.ts';
import { packageVersion } from './version.ts';

/** A whole bridge for one client on standard input and output. */
export async function stdio(files: readonly string[], options: RunOptions): Promise<void> {
  const config = readConfigAloud(files);
  const log = createLog(config.log.level);
  const bridge = await Bridge.create(config, { version: packageVersion(), readOnly: options.readOnly === true, log });
  bridge.start();
  const told = new Promise<void>(resolve => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => resolve());
  });
  await Promise.race([bridge.serve(process.stdin, process.stdout), told]);
  await bridge.stop();
}
