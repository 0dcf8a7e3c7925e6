import { ProtocolError } from '../../model/errors.ts';

/** MODBUS Messaging on TCP/IP V1.0b, 3.1.3: transaction, protocol 0, length of unit id and PDU. */
const HEADER = 6;
/** Unit id and the shortest PDU that says anything: an exception's function and code. */
const MIN_LENGTH = 3;
/** Unit id and the longest PDU, 253 bytes. */
const MAX_LENGTH = 254;

export interface Frame {
  readonly transaction: number;
  readonly unit: number;
  readonly pdu: Buffer;
}

/** Cuts a TCP stream into Modbus frames. What it holds back is never more than one frame. */
export class MbapParser {
  private rest: Buffer = Buffer.alloc(0);

  /** @throws ProtocolError where the stream is no Modbus/TCP; it can not be read any further then */
  push(chunk: Buffer): Frame[] {
    let data = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    const frames: Frame[] = [];
    while (data.length >= HEADER) {
      const protocol = data.readUInt16BE(2);
      const length = data.readUInt16BE(4);
      if (protocol !== 0) throw new ProtocolError(`the peer does not speak Modbus/TCP: protocol identifier ${protocol}, expected 0`);
      if (length < MIN_LENGTH || length > MAX_LENGTH)
        throw new ProtocolError(`the peer does not speak Modbus/TCP: a length of ${length}, expected ${MIN_LENGTH} to ${MAX_LENGTH}`);
      if (data.length < HEADER + length) break;
      frames.push({ transaction: data.readUInt16BE(0), unit: data.readUInt8(HEADER), pdu: data.subarray(HEADER + 1, HEADER + length) });
      data = data.subarray(HEADER + length);
    }
    // A copy, so that a few bytes do not keep a whole chunk alive.
    this.rest = Buffer.from(data);
    return frames;
  }
}

export function mbapFrame(transaction: number, unit: number, pdu: Buffer): Buffer {
  const frame = Buffer.alloc(HEADER + 1 + pdu.length);
  frame.writeUInt16BE(transaction, 0);
  frame.writeUInt16BE(pdu.length + 1, 4);
  frame.writeUInt8(unit, HEADER);
  pdu.copy(frame, HEADER + 1);
  return frame;
}
