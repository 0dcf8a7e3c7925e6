import { type FileHandle, open } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { systemReason } from '../model/errors.ts';

type Direction = 'in' | 'out';

/** Lines that wait for a slow disk; beyond it they are left out, and that is said. */
const MAX_WAITING = 10_000;
/** Of one answer over HTTP that is looked at. */
const MAX_HELD = 4_000_000;
const SECRET = /^(authorization|password|passwd|secret|api[_-]?key|token|access[_-]?token|refresh[_-]?token|cookie)$/i;

/** Every message of both directions, as JSON lines with the time: what was really said, when a client and the bridge disagree. */
export class Trace {
  private readonly file: FileHandle;
  private waiting: string[] = [];
  private left = 0;
  private work: Promise<void> | undefined;

  private constructor(file: FileHandle) {
    this.file = file;
  }

  /** @throws Error in words, where the file can not be written */
  static async open(path: string): Promise<Trace> {
    try {
      return new Trace(await open(path, 'a', 0o600));
    } catch (error) {
      throw new Error(`the trace file ${path} can not be opened: ${systemReason(error)}`);
    }
  }

  record(direction: Direction, transport: 'http' | 'stdio', message: unknown, session?: string): void {
    if (this.waiting.length >= MAX_WAITING) {
      this.left++;
      return;
    }
    const about = { time: new Date().toISOString(), direction, transport, ...(session !== undefined && { session }) };
    if (this.left > 0) this.waiting.push(JSON.stringify({ ...about, left_out: this.left }));
    this.left = 0;
    // The replacer sees each key once, however deep it lies.
    this.waiting.push(JSON.stringify({ ...about, message }, (key, value: unknown) => (SECRET.test(key) ? '[redacted]' : value)));
    this.work ??= this.write();
  }

  /** What is sent as an answer to a request over HTTP, one JSON or a stream of events. */
  follow(response: ServerResponse, session: string | undefined): void {
    let held = '';
    const take = (chunk: unknown): void => {
      if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) return;
      if (held.length <= MAX_HELD) held += Buffer.from(chunk as Uint8Array).toString();
      // An answer that is no stream is one JSON value, and comes to its end with the response.
      if (/^\s*[{[]/.test(held)) return;
      const events = held.split('\n\n');
      held = (events.pop() ?? '').slice(-MAX_HELD);
      for (const event of events) this.recordText(dataOf(event), session);
    };
    const { write, end } = response;
    response.write = ((...args: Parameters<typeof write>) => {
      take(args[0]);
      return write.apply(response, args);
    }) as typeof write;
    response.end = ((...args: Parameters<typeof end>) => {
      take(args[0]);
      this.recordText(held, session);
      held = '';
      return end.apply(response, args);
    }) as typeof end;
  }

  async close(): Promise<void> {
    await this.work;
    await this.file.close();
  }

  private recordText(text: string, session: string | undefined): void {
    if (text === '' || text.length > MAX_HELD) return;
    try {
      this.record('out', 'http', JSON.parse(text), session);
    } catch {
      // A comment that keeps a stream open is no message.
    }
  }

  private async write(): Promise<void> {
    while (this.waiting.length > 0) {
      const lines = this.waiting;
      this.waiting = [];
      // A trace that can not be written must not end what it traces.
      await this.file.appendFile(`${lines.join('\n')}\n`).catch(() => undefined);
    }
    this.work = undefined;
  }
}

/** The data of one server-sent event (HTML Living Standard, 9.2.6). */
function dataOf(event: string): string {
  return event
    .split('\n')
    .filter(line => line.startsWith('data:'))
    .map(line => line.slice(5).replace(/^ /, ''))
    .join('\n');
}
