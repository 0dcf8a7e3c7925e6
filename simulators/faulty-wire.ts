import { connect, type Socket } from 'node:net';
import { TcpListener } from './tcp-listener.ts';

/** How fast the wire is, at its best. */
export interface WireSpeed {
  /** Milliseconds that each byte takes, as on a serial line; 0: none. */
  readonly character: number;
  /** Milliseconds before the first byte. */
  readonly delay: number;
}

/** What the wire does to what a server answers. */
export type Fault =
  /** Answers come so many milliseconds later. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Answers do not come. */
  | { readonly kind: 'drop' }
  /** After so many bytes of an answer the connection is reset. */
  | { readonly kind: 'reset'; readonly after: number }
  /** Nothing comes through any more in either direction, and nobody is told. */
  | { readonly kind: 'half-open' }
  /** Only so many bytes of each answer come. */
  | { readonly kind: 'truncate'; readonly bytes: number }
  /** One bit of this byte of each answer is turned over. */
  | { readonly kind: 'corrupt'; readonly at: number }
  /** Each answer comes twice. */
  | { readonly kind: 'duplicate' }
  /** Each byte comes by itself, so many milliseconds after the one before. */
  | { readonly kind: 'throttle'; readonly ms: number }
  /** Something else comes in place of each answer. */
  | { readonly kind: 'replace'; readonly by: Buffer };

const sleep = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

const AT_ITS_BEST: WireSpeed = { character: 0, delay: 0 };

/**
 * A wire between a client and a server that is as slow as a serial line, if it is told to be: bytes of both directions go one after the
 * other, as on RS-485, and each takes its time. And it fails in every way in which wires fail.
 */
export class FaultyWire extends TcpListener {
  /** What happens to the next answer; undefined: nothing. */
  faultOf: (answer: Buffer) => Fault | undefined = () => undefined;
  private readonly target: number;
  private readonly speed: WireSpeed;
  /** When the wire is free again. */
  private free = 0;

  /** @param target port on this machine that the wire leads to */
  constructor(target: number, speed: Partial<WireSpeed> = {}) {
    super();
    this.target = target;
    this.speed = { ...AT_ITS_BEST, ...speed };
  }

  /** The same for every answer from now on. */
  set fault(fault: Fault | undefined) {
    this.faultOf = () => fault;
  }

  protected serve(near: Socket): void {
    const far = connect({ port: this.target, host: '127.0.0.1', noDelay: true });
    this.track(far);
    let isDead = false;
    /** One after the other, whatever becomes of the fault meanwhile: a stream never overtakes itself. */
    let before: Promise<void> = Promise.resolve();
    near.on('data', chunk => {
      isDead ||= this.faultOf(chunk)?.kind === 'half-open';
      if (!isDead) this.carry(chunk, far);
    });
    far.on('data', chunk => {
      const fault = this.faultOf(chunk);
      isDead ||= fault?.kind === 'half-open';
      if (!isDead) before = before.then(() => this.answer(chunk, near, fault));
    });
    far.on('close', () => !isDead && near.destroy());
    near.on('close', () => far.destroy());
  }

  private async answer(chunk: Buffer, near: Socket, fault: Fault | undefined): Promise<void> {
    if (fault?.kind === 'reset') near.write(chunk.subarray(0, fault.after), () => near.resetAndDestroy());
    else if (fault?.kind === 'throttle')
      for (const byte of chunk) {
        await sleep(fault.ms);
        this.carry(Buffer.from([byte]), near);
      }
    else {
      if (fault?.kind === 'delay') await sleep(fault.ms);
      this.carry(damaged(chunk, fault), near);
    }
  }

  /** The chunk arrives whole when its last byte would. */
  private carry(chunk: Buffer, to: Socket): void {
    const now = performance.now();
    this.free = Math.max(this.free, now) + this.speed.delay + chunk.length * this.speed.character;
    const wait = this.free - now;
    const send = (): void => void (to.writable && to.write(chunk));
    if (wait <= 0) send();
    else setTimeout(send, wait);
  }
}

/** What is left of an answer. */
function damaged(chunk: Buffer, fault: Fault | undefined): Buffer {
  switch (fault?.kind) {
    case 'drop':
      return Buffer.alloc(0);
    case 'truncate':
      return chunk.subarray(0, fault.bytes);
    case 'duplicate':
      return Buffer.concat([chunk, chunk]);
    case 'replace':
      return fault.by;
    case 'corrupt': {
      const wrong = Buffer.from(chunk);
      wrong[fault.at] = (wrong[fault.at] ?? 0) ^ 0x10;
      return wrong;
    }
    default:
      return chunk;
  }
}
