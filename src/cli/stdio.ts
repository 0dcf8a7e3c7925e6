import { askedToEnd, createBridge, type StartOptions } from './start.ts';

/** A whole bridge for one client on standard input and output. */
export async function stdio(files: readonly string[], options: StartOptions): Promise<void> {
  const { bridge } = await createBridge(files, options);
  bridge.start();
  await Promise.race([bridge.serve(process.stdin, process.stdout), askedToEnd()]);
  await bridge.stop();
}
