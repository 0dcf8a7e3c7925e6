import type { ServerResponse } from 'node:http';

/** What a message takes on the wire beside its JSON: the lines of a server-sent event around it. */
const FRAME = 64;

/**
 * A stream of notifications to one client, whose unsent bytes are counted: the SDK queues without bound what a client
 * does not read.
 */
export class EventStream {
  /** Resolves as the SDK has taken the stream and begins to answer. */
  readonly opened: Promise<void>;
  private readonly response: ServerResponse;
  private readonly limit: number;
  private queued = 0;
  private written = 0;

  constructor(response: ServerResponse, limit: number) {
    this.response = response;
    this.limit = limit;
    const { write, writeHead } = response;
    this.opened = new Promise(resolve => {
      response.writeHead = ((...args: Parameters<typeof writeHead>) => {
        resolve();
        return writeHead.apply(response, args);
      }) as typeof writeHead;
    });
    response.write = ((...args: Parameters<typeof write>) => {
      this.written += Buffer.byteLength(args[0] as string | Uint8Array);
      return write.apply(response, args);
    }) as typeof write;
  }

  /** To be called as a message is handed to the SDK for this stream; cuts a client that has stopped reading. */
  sending(bytes: number): void {
    // Everything that was handed on is with the system: what was estimated until now needs no longer be right.
    if (this.response.writableLength === 0) this.queued = this.written;
    this.queued += bytes + FRAME;
    if (this.queued - this.written + this.response.writableLength > this.limit) this.response.destroy();
  }

  close(): void {
    this.response.destroy();
  }
}
