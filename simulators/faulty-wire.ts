import { connect, type Socket } from 'node:net';
import { TcpListener } from './tcp-listener.ts';

/** What the wire does to the bytes of one direction. */
export interface WireFaults {
  /** Milliseconds that each byte takes, as on a serial line; 0: none. */
  readonly character: number;
  /** Milliseconds before the first byte. */
  readonly delay: number;
}

const PERFECT: WireFaults = { character: 0, delay: 0 };

/**
 * A wire between a client and a server that is as slow as a serial line: bytes of both directions go one after the
 * other, as on RS-485, and each takes its time.
 */
export class FaultyWire extends TcpListener {
  private readonly target: number;
  private readonly faults: WireFaults;
  /** When the wire is free again. */
  private free = 0;

  /** @param target port on this machine that the wire leads to */
  constructor(target: number, faults: Partial<WireFaults> = {}) {
    super();
    this.target = target;
    this.faults = { ...PERFECT, ...faults };
  }

  protected serve(near: Socket): void {
    const far = connect({ port: this.target, host: '127.0.0.1', noDelay: true });
    this.track(far);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('data', chunk => this.carry(chunk, to));
      from.on('close', () => to.destroy());
    }
  }

  /** The chunk arrives whole when its last byte would. */
  private carry(chunk: Buffer, to: Socket): void {
    const now = performance.now();
    this.free = Math.max(this.free, now) + this.faults.delay + chunk.length * this.faults.character;
    const wait = this.free - now;
    if (wait <= 0) to.write(chunk);
    else setTimeout(() => to.writable && to.write(chunk), wait);
  }
}
