import { TransportError } from '../../model/errors.ts';
import type { ModbusClient } from './client.ts';

/** Who goes first: writes and their verification, then reads that somebody waits for, then polls, among them the probes of lost devices. */
const PRIORITY = { write: 0, fresh: 1, poll: 2, probe: 2 } as const;
export type Priority = keyof typeof PRIORITY;

/** More waiting requests than this mean that the bus can not keep up, and that waiting longer helps nobody. */
const MAX_QUEUED = 2000;

export interface Job<T> {
  readonly priority: Priority;
  readonly device: string;
  /** Nothing else is on the wire meanwhile. */
  readonly exclusive?: boolean;
  readonly signal?: AbortSignal;
  run(client: ModbusClient): Promise<T>;
}

interface Waiting {
  readonly job: Job<unknown>;
  readonly number: number;
  start(): void;
  cancel(error: Error): void;
}

/**
 * The queue of one connection: one master, fair between its devices. Of the most urgent jobs the device goes next that
 * has waited longest since its last turn.
 */
export class Bus {
  private readonly waiting: Waiting[] = [];
  private readonly lastTurn = new Map<string, number>();
  private readonly maxInFlight: number;
  private readonly acquire: () => Promise<ModbusClient>;
  private readonly whenIdle: (() => void)[] = [];
  private running = 0;
  private endedAt = performance.now();
  private exclusive = false;
  private turns = 0;
  private stopped = false;

  /** @param acquire the open connection, or a TransportError that says why there is none */
  constructor(maxInFlight: number, acquire: () => Promise<ModbusClient>) {
    this.maxInFlight = maxInFlight;
    this.acquire = acquire;
  }

  get isBusy(): boolean {
    return this.running > 0 || this.waiting.length > 0;
  }

  get queued(): number {
    return this.waiting.length;
  }

  /** When a request last ended, with an answer or without. */
  get lastEnd(): number {
    return this.endedAt;
  }

  submit<T>(job: Job<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.stopped) return reject(new TransportError('no_connection', 'the bridge is stopping'));
      if (job.signal?.aborted) return reject(new TransportError('cancelled', 'cancelled before it was sent'));
      if (this.waiting.length >= MAX_QUEUED)
        return reject(new TransportError('timeout', `${MAX_QUEUED} requests wait for this connection already`));
      const abort = (): void => {
        const index = this.waiting.indexOf(entry);
        if (index < 0) return;
        this.waiting.splice(index, 1);
        reject(new TransportError('cancelled', 'cancelled before it was sent'));
      };
      const entry: Waiting = {
        job: job as Job<unknown>,
        number: ++this.turns,
        start: () => {
          job.signal?.removeEventListener('abort', abort);
          this.execute(job).then(resolve, reject);
        },
        cancel: error => {
          job.signal?.removeEventListener('abort', abort);
          reject(error);
        },
      };
      job.signal?.addEventListener('abort', abort, { once: true });
      this.waiting.push(entry);
      this.pump();
      return undefined;
    });
  }

  /** Turns away what waits; what runs is finished by its owner. */
  stop(): void {
    this.stopped = true;
    for (const entry of this.waiting.splice(0)) entry.cancel(new TransportError('no_connection', 'the bridge is stopping'));
  }

  /** Resolves when nothing is on the wire any more. */
  idle(): Promise<void> {
    return new Promise(resolve => {
      if (this.running === 0) resolve();
      else this.whenIdle.push(resolve);
    });
  }

  private pump(): void {
    while (!this.exclusive && this.running < this.maxInFlight && this.waiting.length > 0) {
      const next = this.next();
      if (next.job.exclusive && this.running > 0) return;
      this.waiting.splice(this.waiting.indexOf(next), 1);
      this.lastTurn.set(next.job.device, ++this.turns);
      this.running++;
      this.exclusive = next.job.exclusive === true;
      next.start();
    }
  }

  private next(): Waiting {
    const rank = (entry: Waiting): readonly [number, number, number] => [
      PRIORITY[entry.job.priority],
      this.lastTurn.get(entry.job.device) ?? 0,
      entry.number,
    ];
    return this.waiting.reduce((best, entry) => (isBefore(rank(entry), rank(best)) ? entry : best));
  }

  private async execute<T>(job: Job<T>): Promise<T> {
    try {
      return await job.run(await this.acquire());
    } finally {
      this.running--;
      this.endedAt = performance.now();
      if (job.exclusive) this.exclusive = false;
      this.pump();
      if (this.running === 0) for (const tell of this.whenIdle.splice(0)) tell();
    }
  }
}

function isBefore(a: readonly [number, number, number], b: readonly [number, number, number]): boolean {
  return a[0] - b[0] < 0 || (a[0] === b[0] && (a[1] < b[1] || (a[1] === b[1] && a[2] < b[2])));
}
