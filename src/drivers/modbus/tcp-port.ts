import { EventEmitter } from 'node:events';
import { connect, type Socket } from 'node:net';
import crc16 from 'modbus-serial/utils/crc16.js';
import { ProtocolError, TransportError } from '../../model/errors.ts';
import { MbapParser, mbapFrame } from './mbap.ts';
import { checkReply, type Expectation } from './reply.ts';

const CRC_BYTES = 2;
const KEEPALIVE_DELAY = 10_000;

/**
 * Modbus/TCP as a port of modbus-serial, which speaks RTU frames to it. In place of the library's own TCP port: the
 * header of every reply is checked, transactions are 16 bits wide, and a reply that nobody waits for is counted and
 * dropped before the library sees it.
 */
export class TcpPort extends EventEmitter {
  /** The library reads and sets these two around each request and reply. */
  _transactionIdWrite = 1;
  _transactionIdRead = 0;
  /** The last request as it went out, without the header. */
  lastRequest: Buffer = Buffer.alloc(0);
  discardedReplies = 0;

  private readonly host: string;
  private readonly port: number;
  private readonly connectTimeout: number;
  private readonly pending = new Map<number, Expectation>();
  private readonly parser = new MbapParser();
  private socket: Socket | undefined;
  private failed = false;

  constructor(host: string, port: number, connectTimeout: number) {
    super();
    this.host = host;
    this.port = port;
    this.connectTimeout = connectTimeout;
  }

  get isOpen(): boolean {
    return this.socket !== undefined && !this.failed && this.socket.readyState === 'open';
  }

  open(callback: (error?: Error) => void): void {
    let answered = false;
    const answer = (error?: Error): void => {
      clearTimeout(timer);
      if (answered) return;
      answered = true;
      callback(error);
    };
    const socket = connect({ host: this.host, port: this.port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_DELAY });
    this.socket = socket;
    const timer = setTimeout(
      () =>
        socket.destroy(new TransportError('no_connection', `no connection to ${this.host}:${this.port} within ${this.connectTimeout} ms`)),
      this.connectTimeout,
    );
    socket.on('connect', () => answer());
    socket.on('data', chunk => this.receive(chunk));
    socket.on('error', error => this.fail(error));
    socket.on('close', () => {
      this.fail(new TransportError('no_connection', 'the peer closed the connection'));
      answer(this.lastError);
    });
  }

  private lastError: Error | undefined;

  /** Announces that the request about to be written expects this reply. @returns its transaction */
  expect(expected: Expectation): number {
    // 65,536 requests are never in flight, but one that is must not be overwritten.
    while (this.pending.has(this._transactionIdWrite)) this._transactionIdWrite = (this._transactionIdWrite + 1) & 0xffff;
    this.pending.set(this._transactionIdWrite, expected);
    return this._transactionIdWrite;
  }

  forget(transaction: number): void {
    this.pending.delete(transaction);
  }

  write(rtu: Buffer): void {
    const transaction = this._transactionIdWrite;
    this._transactionIdWrite = (transaction + 1) & 0xffff;
    this.lastRequest = rtu.subarray(0, -CRC_BYTES);
    this.socket?.write(mbapFrame(transaction, rtu.readUInt8(0), rtu.subarray(1, -CRC_BYTES)));
  }

  private receive(chunk: Buffer): void {
    if (this.failed) return;
    try {
      for (const { transaction, unit, pdu } of this.parser.push(chunk)) {
        const expected = this.pending.get(transaction);
        if (expected === undefined) {
          this.discardedReplies++;
          continue;
        }
        checkReply(expected, unit, pdu);
        this.pending.delete(transaction);
        this._transactionIdRead = transaction;
        const rtu = Buffer.concat([Buffer.from([unit]), pdu, Buffer.alloc(CRC_BYTES)]);
        rtu.writeUInt16LE(crc16(rtu.subarray(0, -CRC_BYTES)), rtu.length - CRC_BYTES);
        this.emit('data', rtu);
      }
    } catch (error) {
      this.fail(error instanceof Error ? error : new ProtocolError(String(error)));
      this.reset();
    }
  }

  /** Tells once that the connection is of no use any more, and why. */
  private fail(error: Error): void {
    if (this.failed) return;
    this.failed = true;
    this.lastError = error;
    this.pending.clear();
    this.emit('down', error);
  }

  close(callback?: () => void): void {
    this.fail(new TransportError('no_connection', 'the connection was closed'));
    this.socket?.end();
    this.socket?.destroySoon();
    callback?.();
  }

  /** Drops the connection so that nothing that is still in a buffer arrives later. */
  reset(): void {
    this.fail(new TransportError('no_connection', 'the connection was reset'));
    this.socket?.resetAndDestroy();
  }
}
