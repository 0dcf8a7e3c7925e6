import { askedToEnd, createBridge, type StartOptions } from './start.ts';

const STOP_WITHIN = 5000;

/** The daemon: polls, and serves MCP over HTTP until it is told to stop. */
export async function run(files: readonly string[], options: StartOptions): Promise<void> {
  const bridge = await createBridge(files, options);
  const told = askedToEnd();
  await bridge.listen();
  bridge.start();
  await told;
  setTimeout(() => process.exit(1), STOP_WITHIN).unref();
  await bridge.stop();
}
