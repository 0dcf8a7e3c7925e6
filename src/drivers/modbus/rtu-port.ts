import { ProtocolError, TransportError } from '../../model/errors.ts';
import { closed, hasGoodCrc, ModbusPort, once, withCrc } from './port.ts';
import { arrivingLength, checkReply, type Expectation, replyLength } from './reply.ts';

/** What carries the bytes: a serial device, or a socket to a converter. */
export interface ByteLine {
  open(events: { open(): void; data(chunk: Buffer): void; down(error: Error): void }): void;
  write(bytes: Buffer): void;
  close(): void;
  readonly isOpen: boolean;
}

export interface RtuSettings {
  /** Milliseconds that one character takes; 0 where it is not known. */
  readonly character: number;
  /** Milliseconds of silence between two frames: 3.5 characters (MODBUS over Serial Line V1.02, 2.5.1.1). */
  readonly silence: number;
  /** Milliseconds that a device has for its reply. */
  readonly timeout: number;
  /** The adapter hands the bridge its own bytes back. */
  readonly echo: boolean;
  /** A converter is dialled anew when what it sends can not be understood; a serial line is left to fall silent. */
  readonly redials: boolean;
}

const UNIT_AND_CRC = 3;
const EXCEPTION_FRAME = 5;

interface Waiting {
  readonly transaction: number;
  readonly expected: Expectation;
  readonly request: Buffer;
}

/**
 * Modbus RTU on a line without transaction ids. One request at a time; a reply is taken only if unit, function, length
 * and CRC fit. After a timeout the same unit is not asked again before its late reply can have passed, so that an old
 * answer never meets a new question; other units need not wait, since a late frame names its unit.
 */
export class RtuPort extends ModbusPort {
  private readonly line: ByteLine;
  private readonly settings: RtuSettings;
  private received: Buffer = Buffer.alloc(0);
  private current: Waiting | undefined;
  private echoSeen = false;
  private echoLeft: Buffer = Buffer.alloc(0);
  private lastByteAt = Number.NEGATIVE_INFINITY;
  private late: { readonly expected: Expectation; readonly since: number } | undefined;
  private longestLate = 0;
  private garbage: { readonly error: ProtocolError; timer: NodeJS.Timeout } | undefined;

  constructor(line: ByteLine, settings: RtuSettings) {
    super();
    this.line = line;
    this.settings = settings;
  }

  get isOpen(): boolean {
    return this.failure === undefined && this.line.isOpen;
  }

  open(callback: (error?: Error) => void): void {
    const answer = once(callback);
    this.line.open({
      open: () => answer(),
      data: chunk => this.receive(chunk),
      down: error => {
        this.fail(error);
        answer(error);
      },
    });
  }

  close(callback?: () => void): void {
    this.dropGarbage();
    this.fail(closed());
    this.line.close();
    callback?.();
  }

  reset(): boolean {
    if (!this.settings.redials) return false;
    this.dropGarbage();
    this.fail(new TransportError('no_connection', 'the connection was reset'));
    this.line.close();
    return true;
  }

  override transmission(next: Expectation): number {
    const request = 8;
    return (request + UNIT_AND_CRC + replyLength(next)) * this.settings.character;
  }

  override get broadcasts(): boolean {
    return true;
  }

  override holdOff(unit: number): number {
    return this.late?.expected.unit === unit ? Math.max(0, this.late.since + this.drain() - performance.now()) : 0;
  }

  override async ready(next: Expectation): Promise<void> {
    for (;;) {
      const now = performance.now();
      const quiet = this.lastByteAt + this.settings.silence - now;
      const wait = Math.max(quiet, this.holdOff(next.unit));
      if (wait <= 0) break;
      await new Promise(resolve => setTimeout(resolve, Math.ceil(wait)));
    }
    if (this.late?.expected.unit === next.unit) this.late = undefined;
    this.received = Buffer.alloc(0);
  }

  override forget(transaction: number, timedOut: boolean): void {
    super.forget(transaction, timedOut);
    if (this.current?.transaction !== transaction) return;
    if (timedOut) this.late = { expected: this.current.expected, since: performance.now() };
    this.current = undefined;
    this.dropGarbage();
  }

  protected send(transaction: number, unit: number, pdu: Buffer): void {
    const request = withCrc(unit, pdu);
    const expected = this.pending.get(transaction);
    this.current = expected === undefined ? undefined : { transaction, expected, request };
    this.received = Buffer.alloc(0);
    this.echoLeft = this.settings.echo || this.echoSeen ? request : Buffer.alloc(0);
    this.line.write(request);
  }

  /** How long a late reply may still be under way: as late as one ever was, and at first as long as a timely one. */
  private drain(): number {
    return Math.max(
      this.settings.silence,
      this.longestLate === 0 ? this.settings.timeout : Math.min(this.longestLate * 1.5, this.settings.timeout * 4),
    );
  }

  private receive(chunk: Buffer): void {
    this.lastByteAt = performance.now();
    if (this.failure !== undefined) return;
    if (this.current === undefined) {
      this.noteLate(chunk);
      return;
    }
    if (this.garbage !== undefined) {
      this.garbage.timer.refresh();
      return;
    }
    this.received = this.received.length === 0 ? chunk : Buffer.concat([this.received, chunk]);
    try {
      this.parse(this.current);
    } catch (error) {
      this.onGarbage(error instanceof ProtocolError ? error : new ProtocolError(String(error)));
    }
  }

  /** Bytes that nobody waits for: counted, and a lesson in how late this line's replies can be. */
  private noteLate(chunk: Buffer): void {
    if (this.late !== undefined) {
      this.longestLate = Math.max(this.longestLate, performance.now() - this.late.since);
      // Only the first bytes of a frame name a unit; the rest of it is not another frame.
      if (chunk[0] === this.late.expected.unit) this.discardedReplies++;
    } else this.discardedReplies++;
  }

  private parse(current: Waiting): void {
    this.skipEcho(current);
    this.skipLate(current);
    const { expected, transaction } = current;
    const bytes = this.received;
    if (bytes.length < 2) return;
    const [unit = 0, code = 0] = bytes;
    if (unit !== expected.unit) throw new ProtocolError(`a reply of unit ${unit} to a request to unit ${expected.unit}`);
    const isException = code === (expected.functionCode | 0x80);
    if (!isException && code !== expected.functionCode)
      throw new ProtocolError(`a reply with function code ${code} to a request with ${expected.functionCode}`);
    if (!isException && expected.bytes !== undefined && bytes.length > 2 && bytes[2] !== expected.bytes) {
      throw new ProtocolError(`a reply that announces ${bytes[2]} data bytes, expected ${expected.bytes}`);
    }
    const arriving = isException ? EXCEPTION_FRAME - UNIT_AND_CRC : arrivingLength(expected, bytes.subarray(1));
    if (arriving === undefined) return;
    const length = arriving + UNIT_AND_CRC;
    if (bytes.length < length) return;
    const frame = bytes.subarray(0, length);
    if (!hasGoodCrc(frame)) throw new ProtocolError('a reply whose CRC is wrong');
    if (bytes.length > length) throw new ProtocolError(`a reply with ${bytes.length - length} bytes too many`);
    const pdu = Buffer.from(frame.subarray(1, -2));
    checkReply(expected, unit, pdu);
    this.received = Buffer.alloc(0);
    this.current = undefined;
    this.deliver(transaction, unit, pdu);
  }

  /** Our own bytes come back first: known of the adapter, or seen in front of the reply to a read. */
  private skipEcho({ request, expected }: Waiting): void {
    const bytes = this.received;
    if (
      this.echoLeft.length === 0 &&
      !this.echoSeen &&
      expected.bytes !== undefined &&
      bytes.length >= request.length &&
      bytes.subarray(0, request.length).equals(request)
    ) {
      this.echoSeen = true;
      this.echoLeft = request;
    }
    const size = Math.min(this.echoLeft.length, bytes.length);
    if (size === 0 || !bytes.subarray(0, size).equals(this.echoLeft.subarray(0, size))) {
      this.echoLeft = Buffer.alloc(0);
      return;
    }
    this.echoLeft = this.echoLeft.subarray(size);
    this.received = bytes.subarray(size);
  }

  /** The late reply of another unit, in front of the one that is waited for. */
  private skipLate({ expected }: Waiting): void {
    const late = this.late;
    if (late === undefined || this.received[0] !== late.expected.unit || late.expected.unit === expected.unit || this.received.length < 2)
      return;
    const isException = this.received[1] === (late.expected.functionCode | 0x80);
    const length = isException ? EXCEPTION_FRAME : replyLength(late.expected) + UNIT_AND_CRC;
    if (this.received.length < length) return;
    if (!hasGoodCrc(this.received.subarray(0, length))) return;
    this.longestLate = Math.max(this.longestLate, performance.now() - late.since);
    this.late = undefined;
    this.discardedReplies++;
    this.received = this.received.subarray(length);
  }

  /** What can not be understood: nothing of it is used, and the line has to fall silent before the next request. */
  private onGarbage(error: ProtocolError): void {
    this.received = Buffer.alloc(0);
    if (this.settings.redials) {
      this.fail(error);
      this.line.close();
      return;
    }
    const timer = setTimeout(
      () => {
        this.garbage = undefined;
        const { transaction } = this.current ?? {};
        this.current = undefined;
        if (transaction !== undefined) this.emit('refused', transaction, error);
      },
      Math.max(this.settings.silence * 2, 20),
    );
    this.garbage = { error, timer };
  }

  private dropGarbage(): void {
    clearTimeout(this.garbage?.timer);
    this.garbage = undefined;
  }
}
