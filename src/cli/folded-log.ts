import type { Logger } from 'pino';
import type { BridgeLog } from '../bridge.ts';
import type { Log } from '../drivers/driver.ts';

/** A message that comes more often than this within this time is counted, and told once at the end of it. */
const OFTEN = 5;
const WINDOW = 60_000;
/** Different messages that are kept an eye on. */
const MOST = 1000;

interface Seen {
  /** With the facts of the newest. */
  say: (message: string) => void;
  readonly message: string;
  readonly since: number;
  told: number;
  counted: number;
}

/** What was said of late, by everybody who writes to one log. */
class Repeats {
  private readonly seen = new Map<string, Seen>();

  constructor() {
    setInterval(() => this.settle(performance.now()), 1000).unref();
  }

  tell(key: string, message: string, say: (message: string) => void): void {
    const known = this.seen.get(key);
    if (known !== undefined && known.told >= OFTEN) {
      known.say = say;
      known.counted++;
      return;
    }
    say(message);
    if (known !== undefined) {
      known.told++;
      return;
    }
    this.seen.set(key, { say, message, since: performance.now(), told: 1, counted: 0 });
    const [oldest] = this.seen;
    if (this.seen.size > MOST && oldest !== undefined) this.end(...oldest);
  }

  get size(): number {
    return this.seen.size;
  }

  private settle(now: number): void {
    // Those that came first are over first.
    for (const [key, seen] of this.seen) {
      if (now - seen.since < WINDOW) return;
      this.end(key, seen);
    }
  }

  private end(key: string, { say, message, counted }: Seen): void {
    this.seen.delete(key);
    if (counted > 0) say(`${message} (${counted} more times in the last minute)`);
  }
}

/** A log in which trouble that goes on does not fill the disk: the first of a kind are told, and then how often it came. */
export class FoldedLog implements BridgeLog {
  private readonly root: Logger;
  private readonly facts: object;
  private readonly repeats: Repeats;

  constructor(root: Logger, facts: object = {}, repeats: Repeats = new Repeats()) {
    this.root = root;
    this.facts = facts;
    this.repeats = repeats;
  }

  get level(): string {
    return this.root.level;
  }

  set level(level: string) {
    this.root.level = level;
  }

  /** Messages that are kept an eye on. */
  get watched(): number {
    return this.repeats.size;
  }

  /** The level is the root's, whenever it changes. */
  child(facts: object): Log {
    return new FoldedLog(this.root, { ...this.facts, ...facts }, this.repeats);
  }

  /** Whoever asks to see everything sees everything. */
  debug(fields: object, message: string): void {
    this.root.debug({ ...this.facts, ...fields }, message);
  }

  info(fields: object, message: string): void {
    this.tell('info', fields, message);
  }

  warn(fields: object, message: string): void {
    this.tell('warn', fields, message);
  }

  private tell(level: 'info' | 'warn', fields: object, message: string): void {
    const all = { ...this.facts, ...fields };
    this.repeats.tell(JSON.stringify([level, this.facts, message]), message, text => this.root[level](all, text));
  }
}
