import type { Readable, Writable } from 'node:stream';
import type { Log } from '../../drivers/driver.ts';
import { DEFAULT_LIMITS } from '../../model/limits.ts';
import { StdioTransport } from '../stdio-transport.ts';
import type { Trace } from '../trace.ts';
import { Attachment } from './attachment.ts';
import { Door } from './door.ts';

export interface AttachOptions {
  readonly url: string;
  readonly token?: string;
  readonly log: Log;
  readonly trace?: Trace;
}

/** Serves one client on a pair of streams from a bridge that runs. Resolves when the client has ended, or is asked to. */
export async function attach(
  { url, token, log, trace }: AttachOptions,
  streams: { readonly input: Readable; readonly output: Writable },
  askedToEnd: Promise<unknown>,
): Promise<void> {
  const transport = new StdioTransport(streams.input, streams.output, {
    trace,
    unsent: DEFAULT_LIMITS.unsent,
    urisPerStream: DEFAULT_LIMITS.urisPerStream,
    cut: reason => log.warn({}, `the client on standard input and output was cut: ${reason}`),
  });
  const attachment = new Attachment(new Door(url, token), transport, log);
  const ended = new Promise<void>(resolve => {
    transport.onclose = resolve;
  });
  await transport.start();
  await Promise.race([ended, askedToEnd]);
  await attachment.close();
  await trace?.close();
}
