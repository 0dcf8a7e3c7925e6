import type { Readable, Writable } from 'node:stream';
import {
  isJSONRPCErrorResponse,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  parseJSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/server';
import { BATCHING, idOf, noBatch, tooManyUris } from './exchange.ts';
import type { Trace } from './trace.ts';

type Id = string | number;

/** Longest line that is read. */
const MAX_LINE = 1_000_000;
const NEWLINE = 0x0a;

/** Requests that came in one line, and their answers so far; they leave in one line too (MCP 2025-03-26, batches). */
interface Batch {
  readonly ids: Set<Id>;
  readonly answers: JSONRPCMessage[];
}

interface StdioOptions {
  readonly trace: Trace | undefined;
  /** Bytes that wait for a client that does not read. */
  readonly unsent: number;
  readonly urisPerStream: number;
  /** Why the client was cut. */
  cut(reason: string): void;
}

/**
 * One JSON-RPC message a line (MCP 2025-11-25, transports, stdio), and what the SDK's own transport leaves out: errors for
 * lines that are none, batches for the revision that has them, a bound on what waits for a client that does not read, and
 * an end of input that is held back until what was asked is answered, so that a request can be piped in.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  private readonly input: Readable;
  private readonly output: Writable;
  private readonly options: StdioOptions;
  private readonly unanswered = new Set<Id>();
  private readonly batches = new Set<Batch>();
  private pieces: Buffer[] = [];
  private held = 0;
  private isSkipping = false;
  private revision: unknown;
  private hasEnded = false;
  private isClosed = false;

  constructor(input: Readable, output: Writable, options: StdioOptions) {
    this.input = input;
    this.output = output;
    this.options = options;
  }

  start(): Promise<void> {
    this.input.on('data', this.take);
    this.input.on('end', () => this.end());
    this.input.on('error', () => this.end());
    this.output.on('error', () => void this.close());
    return Promise.resolve();
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
      this.revision ??= (message as { result?: { protocolVersion?: unknown } }).result?.protocolVersion;
      this.answer(message, message.id);
    } else this.write(message);
    return Promise.resolve();
  }

  close(): Promise<void> {
    if (!this.isClosed) {
      this.isClosed = true;
      this.input.off('data', this.take);
      this.input.pause();
      this.onclose?.();
    }
    return Promise.resolve();
  }

  private readonly take = (chunk: Buffer): void => {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.hold(chunk.subarray(start, end));
      this.line();
      start = end + 1;
    }
    this.hold(chunk.subarray(start));
  };

  private hold(piece: Buffer): void {
    this.held += piece.length;
    if (this.held > MAX_LINE) {
      this.pieces = [];
      this.isSkipping = true;
    } else this.pieces.push(piece);
  }

  private line(): void {
    const text = Buffer.concat(this.pieces).toString().trim();
    const isTooLong = this.isSkipping;
    this.pieces = [];
    this.held = 0;
    this.isSkipping = false;
    if (isTooLong) this.refuse(-32600, `Invalid Request: the line is longer than ${MAX_LINE / 1_000_000} MB`);
    else if (text !== '') this.read(text);
  }

  private read(text: string): void {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      this.refuse(-32700, 'Parse error: the line is no JSON');
      return;
    }
    if (Array.isArray(value)) this.batch(value);
    else this.receive(value);
  }

  private batch(values: readonly unknown[]): void {
    if (this.revision !== BATCHING || values.length === 0) this.refuse(-32600, noBatch(this.revision));
    else if (values.some(value => (value as { method?: unknown } | null)?.method === 'initialize'))
      this.refuse(-32600, 'Invalid Request: initialize comes alone');
    else {
      const requests = values.filter(isJSONRPCRequest);
      if (requests.length > 0) this.batches.add({ ids: new Set(requests.map(({ id }) => id)), answers: [] });
      for (const value of values) this.receive(value);
    }
  }

  private receive(value: unknown): void {
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(value);
    } catch {
      this.refuse(-32600, 'Invalid Request: the line is no JSON-RPC 2.0 message', idOf(value));
      return;
    }
    this.options.trace?.record('in', 'stdio', message);
    if (isJSONRPCRequest(message)) {
      // A listening stream has no answer until it ends.
      if (message.method !== 'subscriptions/listen') this.unanswered.add(message.id);
      else if (this.isTooGreedy(message)) {
        this.refuse(-32602, tooManyUris(this.options.urisPerStream), message.id);
        return;
      }
    }
    this.onmessage?.(message);
    // What was cancelled needs no answer (MCP 2025-11-25, cancellation), also where it is part of a batch.
    if (isJSONRPCNotification(message) && message.method === 'notifications/cancelled')
      this.answer(undefined, message.params?.requestId as Id | undefined);
  }

  private isTooGreedy({ params }: JSONRPCRequest): boolean {
    const uris = (params?.notifications as { resourceSubscriptions?: unknown } | undefined)?.resourceSubscriptions;
    return Array.isArray(uris) && uris.length > this.options.urisPerStream;
  }

  /** @param message undefined: there will be none */
  private answer(message: JSONRPCMessage | undefined, id: Id | undefined): void {
    if (id !== undefined) this.unanswered.delete(id);
    const batch = id === undefined ? undefined : [...this.batches].find(({ ids }) => ids.has(id));
    if (batch === undefined || id === undefined) {
      if (message !== undefined) this.write(message);
    } else {
      batch.ids.delete(id);
      if (message !== undefined) batch.answers.push(message);
      if (batch.ids.size === 0) {
        this.batches.delete(batch);
        if (batch.answers.length > 0) this.write(batch.answers);
      }
    }
    this.closeIfDone();
  }

  private refuse(code: number, message: string, id: Id | null = null): void {
    this.write({ jsonrpc: '2.0', id, error: { code, message } });
  }

  private write(message: object): void {
    if (this.isClosed) return;
    for (const one of Array.isArray(message) ? message : [message]) this.options.trace?.record('out', 'stdio', one);
    this.output.write(`${JSON.stringify(message)}\n`);
    if (this.output.writableLength <= this.options.unsent) return;
    this.options.cut(`it has left ${this.output.writableLength} bytes unread`);
    void this.close();
  }

  private end(): void {
    // A last line needs no end of its own.
    if (this.held > 0) this.line();
    this.hasEnded = true;
    this.closeIfDone();
  }

  private closeIfDone(): void {
    if (this.hasEnded && this.unanswered.size === 0) void this.close();
  }
}
