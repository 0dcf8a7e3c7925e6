import { PassThrough, type Readable, type Writable } from 'node:stream';
import {
  isJSONRPCErrorResponse,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Principal } from '../model/write.ts';
import { createServer, type ServerParts } from './server.ts';
import type { Subscriptions } from './subscriptions.ts';
import type { Trace } from './trace.ts';

type Id = string | number;

/**
 * Standard input and output, with the end of input held back until what was asked is answered: a request that is piped
 * in gets its reply although nothing follows it.
 */
class DrainingTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  private readonly inner: StdioServerTransport;
  private readonly input: Readable;
  private readonly pipe = new PassThrough();
  private readonly unanswered = new Set<Id>();
  private ended = false;
  private sending = 0;

  private readonly trace: Trace | undefined;

  constructor(input: Readable, output: Writable, trace: Trace | undefined) {
    this.input = input;
    this.trace = trace;
    this.inner = new StdioServerTransport(this.pipe, output);
    output.on('error', () => void this.close());
  }

  async start(): Promise<void> {
    this.inner.onmessage = message => this.receive(message);
    this.inner.onerror = error => this.onerror?.(error);
    this.inner.onclose = () => this.onclose?.();
    await this.inner.start();
    this.input.on('data', (chunk: Buffer) => void this.pipe.write(chunk));
    // What was written into the pipe before the end is delivered before this runs.
    this.input.on('end', () => setImmediate(() => this.end()));
    this.input.on('error', () => this.end());
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.trace?.record('out', 'stdio', message);
    this.sending++;
    try {
      await this.inner.send(message);
    } finally {
      this.sending--;
      if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) this.settle(message.id);
    }
  }

  async close(): Promise<void> {
    this.input.pause();
    await this.inner.close();
  }

  private receive(message: JSONRPCMessage): void {
    this.trace?.record('in', 'stdio', message);
    // A listening stream has no answer until it ends.
    if (isJSONRPCRequest(message) && message.method !== 'subscriptions/listen') this.unanswered.add(message.id);
    const cancelled =
      isJSONRPCNotification(message) && message.method === 'notifications/cancelled'
        ? (message.params as { requestId?: Id } | undefined)?.requestId
        : undefined;
    if (cancelled !== undefined) this.settle(cancelled);
    this.onmessage?.(message);
  }

  private settle(id: Id | undefined): void {
    if (id !== undefined) this.unanswered.delete(id);
    this.closeIfDone();
  }

  private end(): void {
    this.ended = true;
    this.closeIfDone();
  }

  private closeIfDone(): void {
    if (this.ended && this.unanswered.size === 0 && this.sending === 0) void this.close();
  }
}

/** Serves one client on standard input and output. @returns when the client has ended */
export function serveOnStdio(
  parts: ServerParts,
  subscriptions: Subscriptions,
  principal: Principal,
  streams: { readonly input: Readable; readonly output: Writable },
): { readonly ended: Promise<void>; close(): Promise<void> } {
  const transport = new DrainingTransport(streams.input, streams.output, parts.trace);
  let tellEnded: () => void = () => undefined;
  const ended = new Promise<void>(resolve => {
    tellEnded = resolve;
  });
  const removers: (() => void)[] = [];
  const handle = serveStdio(
    ({ era }) => {
      const { server, subscribed, hear } = createServer(parts, era, principal);
      // In the newer era the SDK itself picks what the client listens to.
      const remove = subscriptions.add({
        updated: uri => {
          if (era === 'modern' || subscribed.has(uri)) server.sendResourceUpdated({ uri }).catch(() => undefined);
        },
        listChanged: () => void server.sendResourceListChanged().catch(() => undefined),
      });
      const stopHearing = parts.notices.add(hear);
      const removeBoth = (): void => {
        remove();
        stopHearing();
      };
      removers.push(removeBoth);
      server.onclose = removeBoth;
      return server;
    },
    { transport, onerror: error => parts.log.debug({ err: error }, 'a message on standard input could not be understood') },
  );
  const afterServer = transport.onclose;
  transport.onclose = () => {
    afterServer?.();
    for (const remove of removers) remove();
    tellEnded();
  };
  return { ended, close: () => handle.close() };
}
