import { connect, createServer, type Server, type Socket } from 'node:net';

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
export class FaultyWire {
  private readonly target: number;
  private readonly faults: WireFaults;
  private readonly sockets = new Set<Socket>();
  private server: Server | undefined;
  /** When the wire is free again. */
  private free = 0;

  /** @param target port on this machine that the wire leads to */
  constructor(target: number, faults: Partial<WireFaults> = {}) {
    this.target = target;
    this.faults = { ...PERFECT, ...faults };
  }

  get port(): number {
    const address = this.server?.address();
    if (typeof address !== 'object' || address === null) throw new Error('the wire is not laid');
    return address.port;
  }

  async start(): Promise<this> {
    const server = createServer(near => this.join(near));
    this.server = server;
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  async stop(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    for (const socket of this.sockets) socket.destroy();
    if (server !== undefined) await new Promise(resolve => server.close(resolve));
  }

  private join(near: Socket): void {
    const far = connect({ port: this.target, host: '127.0.0.1', noDelay: true });
    near.setNoDelay(true);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.sockets.add(from);
      from.on('data', chunk => this.carry(chunk, to));
      from.on('error', () => from.destroy());
      from.on('close', () => {
        this.sockets.delete(from);
        to.destroy();
      });
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
