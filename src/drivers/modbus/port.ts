import { EventEmitter } from 'node:events';
import crc16 from 'modbus-serial/utils/crc16.js';
import { TransportError } from '../../model/errors.ts';
import type { Frame } from './mbap.ts';
import { checkReply, type Expectation } from './reply.ts';

const CRC_BYTES = 2;

/**
 * A port of modbus-serial, which speaks RTU frames to it and names each request by a transaction. The transports below
 * turn those into what goes over their wire, and give back only replies that somebody waits for and that fit.
 *
 * Emits `data` with each reply as an RTU frame, and once `down` with the reason when the port is of no use any more.
 */
export abstract class ModbusPort extends EventEmitter {
  /** The library reads and sets these two around each request and reply. */
  _transactionIdWrite = 1;
  _transactionIdRead = 0;
  /** The last request as it went out: unit id and PDU. */
  lastRequest: Buffer = Buffer.alloc(0);
  discardedReplies = 0;
  protected readonly pending = new Map<number, Expectation>();
  protected failure: Error | undefined;

  abstract get isOpen(): boolean;
  abstract open(callback: (error?: Error) => void): void;
  abstract close(callback?: () => void): void;
  protected abstract send(transaction: number, unit: number, pdu: Buffer): void;

  /**
   * Drops the connection so that nothing that is still in a buffer arrives later.
   *
   * @returns false where there is nothing to drop, as on a serial line
   */
  abstract reset(): boolean;

  /** Resolves when this request may go out. */
  ready(_next: Expectation): Promise<void> {
    return Promise.resolve();
  }

  /** Whether unit id 0 means every unit, as on a line. */
  get broadcasts(): boolean {
    return false;
  }

  /** Milliseconds for which this unit should not be asked, so that others can be meanwhile. */
  holdOff(_unit: number): number {
    return 0;
  }

  /** Milliseconds that request and reply are on the wire, beside what the device takes. */
  transmission(_next: Expectation): number {
    return 0;
  }

  /** Announces that the request about to be written expects this reply. @returns its transaction */
  expect(expected: Expectation): number {
    // 65,536 requests are never in flight, but one that is must not be overwritten.
    while (this.pending.has(this._transactionIdWrite)) this._transactionIdWrite = (this._transactionIdWrite + 1) & 0xffff;
    this.pending.set(this._transactionIdWrite, expected);
    return this._transactionIdWrite;
  }

  /** Nobody waits for this reply any more. */
  forget(transaction: number, _timedOut: boolean): void {
    this.pending.delete(transaction);
  }

  write(rtu: Buffer): void {
    const transaction = this._transactionIdWrite;
    this._transactionIdWrite = (transaction + 1) & 0xffff;
    this.lastRequest = rtu.subarray(0, -CRC_BYTES);
    this.send(transaction, rtu.readUInt8(0), rtu.subarray(1, -CRC_BYTES));
  }

  /** A frame that names its transaction: delivered if somebody waits for it. @throws ProtocolError where it does not fit */
  protected match({ transaction, unit, pdu }: Frame): void {
    const expected = this.pending.get(transaction);
    if (expected === undefined) {
      this.discardedReplies++;
      return;
    }
    checkReply(expected, unit, pdu);
    this.deliver(transaction, unit, pdu);
  }

  protected deliver(transaction: number, unit: number, pdu: Buffer): void {
    this.pending.delete(transaction);
    this._transactionIdRead = transaction;
    this.emit('data', withCrc(unit, pdu));
  }

  /** Tells once that the port is of no use any more, and why. */
  protected fail(error: Error): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    this.pending.clear();
    this.emit('down', error);
  }
}

export const closed = (): TransportError => new TransportError('no_connection', 'the connection was closed');

/** Calls back once, whichever comes first. */
export function once(callback: (error?: Error) => void): (error?: Error) => void {
  let answered = false;
  return error => {
    if (answered) return;
    answered = true;
    callback(error);
  };
}

/** MODBUS over Serial Line V1.02, 2.5.1: unit, PDU, CRC with its low byte first. */
export function withCrc(unit: number, pdu: Buffer): Buffer {
  const frame = Buffer.concat([Buffer.from([unit]), pdu, Buffer.alloc(CRC_BYTES)]);
  frame.writeUInt16LE(crc16(frame.subarray(0, -CRC_BYTES)), frame.length - CRC_BYTES);
  return frame;
}

export function hasGoodCrc(frame: Buffer): boolean {
  return frame.length > CRC_BYTES && frame.readUInt16LE(frame.length - CRC_BYTES) === crc16(frame.subarray(0, -CRC_BYTES));
}
