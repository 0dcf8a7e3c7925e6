import { appendFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemReason } from '../model/errors.ts';

/** Part of the store that is written, read and dropped as one, at most. */
const MAX_SEGMENT = 262_144;
/** Parts that the bound is cut into at least, so that dropping the oldest never drops most. */
const MIN_SEGMENTS = 8;
/** What arrives within it is appended by one write. */
const GATHER_FOR = 50;
/** Numbers of files start here, so that there is room for what is put back in front. */
const FIRST_NUMBER = 1_000_000_000;

interface Segment {
  readonly file: string;
  bytes: number;
  count: number;
}

/** Some of the oldest records, to be sent; `isDone` is set for each that needs to be sent no more. */
export interface Batch<T> {
  readonly entries: readonly { readonly record: T; isDone: boolean }[];
}

interface Loaded<T> extends Batch<T> {
  readonly file: string;
  readonly bytes: number;
}

/**
 * What waits to be sent, oldest first, on the disk and bounded there: when it is full the oldest goes, and is counted. A
 * record stays on the disk until its batch is finished, so that a crash sends it again rather than never.
 */
export class Outbox<T> {
  dropped = 0;
  /** Why something could not be kept last; undefined while all is well. */
  trouble: string | undefined;
  private readonly folder: string;
  private readonly maxBytes: number;
  private readonly segmentBytes: number;
  private readonly loaded: Loaded<T>[] = [];
  /** On the disk alone; the last one may still be appended to. */
  private segments: Segment[] = [];
  /** Being read from the disk; no more where it is dropped meanwhile. */
  private loading: Segment | undefined;
  private appendable: Segment | undefined;
  private tail: { lines: string[]; bytes: number } = { lines: [], bytes: 0 };
  private firstNumber = FIRST_NUMBER;
  private nextNumber = FIRST_NUMBER;
  private timer: NodeJS.Timeout | undefined;
  private work: Promise<unknown> = Promise.resolve();

  /** @param maxBytes 0: nothing is kept */
  constructor(folder: string, maxBytes: number) {
    this.folder = folder;
    this.maxBytes = maxBytes;
    this.segmentBytes = Math.max(1, Math.min(MAX_SEGMENT, Math.floor(maxBytes / MIN_SEGMENTS)));
  }

  /** Takes up what an earlier run has left. */
  async open(): Promise<void> {
    if (this.maxBytes === 0) return;
    await this.onDisk(async () => {
      await mkdir(this.folder, { recursive: true, mode: 0o750 });
      const names = (await readdir(this.folder)).filter(name => /^\d{10}\.jsonl$/.test(name)).sort();
      for (const name of names) {
        const file = join(this.folder, name);
        const text = await readFile(file, 'utf8');
        this.segments.push({ file, bytes: Buffer.byteLength(text), count: linesOf(text).length });
      }
      const numbers = names.map(name => Number(name.slice(0, 10)));
      this.firstNumber = numbers[0] ?? FIRST_NUMBER;
      // A line that a crash cut short stays what it is: what comes goes into a file of its own.
      this.nextNumber = (numbers.at(-1) ?? FIRST_NUMBER - 1) + 1;
      this.appendable = undefined;
    });
    this.bound();
  }

  get waiting(): number {
    const loaded = this.loaded.reduce((sum, batch) => sum + unsent(batch), this.loading?.count ?? 0);
    return loaded + this.segments.reduce((sum, segment) => sum + segment.count, 0) + this.tail.lines.length;
  }

  /** On the disk. */
  get bytes(): number {
    return [...this.loaded, ...this.segments].reduce((sum, one) => sum + one.bytes, this.loading?.bytes ?? 0);
  }

  get isEmpty(): boolean {
    return this.loaded.length === 0 && this.loading === undefined && this.segments.length === 0 && this.tail.lines.length === 0;
  }

  push(record: T): void {
    if (this.maxBytes === 0) {
      this.dropped++;
      return;
    }
    const line = JSON.stringify(record);
    this.tail.lines.push(line);
    this.tail.bytes += Buffer.byteLength(line) + 1;
    this.timer ??= setTimeout(() => void this.flush(), GATHER_FOR);
  }

  /** Records that were out and did not arrive: they come first, in the order given. */
  unshift(records: readonly T[]): void {
    if (records.length === 0) return;
    if (this.maxBytes === 0) {
      this.dropped += records.length;
      return;
    }
    const text = textOf(records.map(record => JSON.stringify(record)));
    const file = this.fileOf(--this.firstNumber);
    this.loaded.unshift({ file, bytes: Buffer.byteLength(text), entries: records.map(record => ({ record, isDone: false })) });
    void this.onDisk(() => writeFile(file, text, { mode: 0o640 }));
  }

  /** The oldest records, the same until they are finished; undefined where nothing waits. */
  async peek(): Promise<Batch<T> | undefined> {
    if (this.loaded.length === 0) {
      if (this.segments.length === 0) await this.flush();
      const segment = this.segments.shift();
      if (segment === undefined) return undefined;
      if (segment === this.appendable) this.appendable = undefined;
      this.loading = segment;
      const batch = await this.onDisk(async () => ({
        file: segment.file,
        bytes: segment.bytes,
        entries: linesOf(await readFile(segment.file, 'utf8')).flatMap(line => parse<T>(line).map(record => ({ record, isDone: false }))),
      }));
      const isDropped = this.loading !== segment;
      this.loading = undefined;
      if (isDropped) return await this.peek();
      if (batch === undefined) {
        this.dropped += segment.count;
        return await this.peek();
      }
      this.dropped += segment.count - batch.entries.length;
      this.loaded.push(batch);
    }
    return this.loaded[0];
  }

  /** All of the batch was sent. */
  finish(batch: Batch<T>): void {
    const index = this.loaded.indexOf(batch as Loaded<T>);
    const [finished] = index < 0 ? [] : this.loaded.splice(index, 1);
    if (finished !== undefined) void this.onDisk(() => rm(finished.file, { force: true }));
  }

  /** Resolves when everything that waits is on the disk. */
  async close(): Promise<void> {
    await this.flush();
    await this.work;
  }

  private async flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { lines } = this.tail;
    let { bytes } = this.tail;
    if (lines.length === 0) {
      await this.work;
      return;
    }
    this.tail = { lines: [], bytes: 0 };
    while (bytes > this.maxBytes) {
      bytes -= Buffer.byteLength(lines.shift() ?? '') + 1;
      this.dropped++;
    }
    this.bound(bytes);
    if (this.appendable === undefined || this.appendable.bytes >= this.segmentBytes) {
      this.appendable = { file: this.fileOf(this.nextNumber++), bytes: 0, count: 0 };
      this.segments.push(this.appendable);
    }
    const segment = this.appendable;
    segment.bytes += bytes;
    segment.count += lines.length;
    const written = await this.onDisk(async () => {
      await appendFile(segment.file, textOf(lines), { mode: 0o640 });
      return true;
    });
    if (written !== true) {
      // The disk is full, or the folder is gone: what it may have cut short is left alone.
      this.dropped += lines.length;
      segment.bytes -= bytes;
      segment.count -= lines.length;
      if (segment.count === 0) this.segments = this.segments.filter(one => one !== segment);
      this.appendable = undefined;
    }
  }

  /** Makes room, before it is needed: the oldest goes first. */
  private bound(room = 0): void {
    while (this.bytes + room > this.maxBytes) {
      const batch = this.loaded.shift();
      const oldest = batch ?? this.loading ?? this.segments.shift();
      if (oldest === undefined) return;
      if (oldest === this.loading) this.loading = undefined;
      if (oldest === this.appendable) this.appendable = undefined;
      this.dropped += batch === undefined ? (oldest as Segment).count : unsent(batch);
      for (const entry of batch?.entries ?? []) entry.isDone = true;
      void this.onDisk(() => rm(oldest.file, { force: true }));
    }
  }

  private fileOf(number: number): string {
    return join(this.folder, `${String(number).padStart(10, '0')}.jsonl`);
  }

  /** One after the other. @returns undefined where the disk would not */
  private onDisk<R>(task: () => Promise<R>): Promise<R | undefined> {
    const done = this.work.then(task).then(
      result => {
        this.trouble = undefined;
        return result;
      },
      (error: unknown) => {
        this.trouble = `the store ${this.folder} can not be used: ${systemReason(error)}`;
        return undefined;
      },
    );
    this.work = done;
    return done;
  }
}

const unsent = ({ entries }: Batch<unknown>): number => entries.filter(entry => !entry.isDone).length;
const linesOf = (text: string): string[] => text.split('\n').filter(Boolean);
const textOf = (lines: readonly string[]): string => `${lines.join('\n')}\n`;

/** Empty for a line that a crash has cut short. */
function parse<T>(line: string): T[] {
  try {
    return [JSON.parse(line) as T];
  } catch {
    return [];
  }
}
