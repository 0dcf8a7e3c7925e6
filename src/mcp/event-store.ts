import type { EventStore, JSONRPCMessage } from '@modelcontextprotocol/server';

const MAX_EVENTS = 256;
const MAX_BYTES = 256_000;
const KEEP = 5 * 60_000;

interface StoredEvent {
  readonly id: string;
  readonly stream: string;
  readonly text: string;
  readonly at: number;
}

/**
 * The last messages of one session, for a client whose stream broke (MCP 2025-11-25, transports, resumability). Bounded by
 * number, bytes and age: what has gone is told as gone.
 */
export class RecentEvents implements EventStore {
  private events: StoredEvent[] = [];
  private bytes = 0;
  private count = 0;
  /** The number of the last event that was too large to be kept. */
  private gap = 0;

  storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    // The stream is known from the id alone, so that it is still known when the event has gone.
    const id = `${stream}.${++this.count}`;
    const text = JSON.stringify(message);
    if (text.length <= MAX_BYTES) {
      this.events.push({ id, stream, text, at: performance.now() });
      this.bytes += text.length;
      while (this.events.length > MAX_EVENTS || this.bytes > MAX_BYTES) this.dropFirst();
    } else this.gap = this.count;
    return Promise.resolve(id);
  }

  async replayEventsAfter(lastId: string, { send }: { send: (id: string, message: JSONRPCMessage) => Promise<void> }): Promise<string> {
    const stream = streamOf(lastId);
    const last = numberOf(lastId);
    // A priming event has an id and no message.
    for (const event of this.events.filter(one => one.stream === stream && numberOf(one.id) > last))
      if (event.text !== '{}') await send(event.id, JSON.parse(event.text) as JSONRPCMessage);
    return stream;
  }

  /** Whether every message of the stream after this one is still here. */
  hasAllAfter(lastId: string): boolean {
    return numberOf(lastId) >= this.gap && this.events.some(event => event.id === lastId);
  }

  forgetOld(now: number): void {
    while (this.events[0] !== undefined && now - this.events[0].at > KEEP) this.dropFirst();
  }

  private dropFirst(): void {
    this.bytes -= this.events.shift()?.text.length ?? 0;
  }
}

const streamOf = (id: string): string => id.slice(0, id.lastIndexOf('.'));
const numberOf = (id: string): number => Number(id.slice(id.lastIndexOf('.') + 1));

/** The stream that is open for what no request asked for, as the SDK calls it. */
const GENERAL = '_GET_stream';

export const isOfGeneralStream = (id: string): boolean => streamOf(id) === GENERAL;
