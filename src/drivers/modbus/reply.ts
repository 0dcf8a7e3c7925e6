import { ProtocolError } from '../../model/errors.ts';

/** What a reply must look like to belong to its request. */
export interface Expectation {
  readonly unit: number;
  readonly functionCode: number;
  /** Reads: data bytes. Writes: undefined, their replies have a fixed length. */
  readonly bytes?: number;
}

/** A usual length of an identification, whose own is known only once it is there. */
const IDENTIFICATION_LENGTH = 60;

const REPLY_LENGTH: Readonly<Record<number, number>> = { 5: 5, 6: 5, 15: 5, 16: 5, 22: 7 };

/** Length of the PDU of a reply that is no exception. */
export function replyLength({ functionCode, bytes }: Expectation): number {
  if (functionCode === 43) return IDENTIFICATION_LENGTH;
  return bytes === undefined ? (REPLY_LENGTH[functionCode] ?? 5) : 2 + bytes;
}

/** Length of the PDU that has begun to arrive; undefined: its first bytes do not tell yet. */
export function arrivingLength(expected: Expectation, pdu: Buffer): number | undefined {
  if (expected.functionCode !== 43) return replyLength(expected);
  // MODBUS Application Protocol V1.1b3, 6.21: seven bytes, then objects of id, length and text.
  let at = 7;
  for (let left = pdu[6] ?? 0; left > 0 || pdu.length < 7; left--) {
    const length = pdu[at + 1];
    if (length === undefined) return undefined;
    at += 2 + length;
  }
  return at;
}

/**
 * Every field of a reply that can be compared is compared; values are decoded from nothing else.
 *
 * @throws ProtocolError
 */
export function checkReply(expected: Expectation, unit: number, pdu: Buffer): void {
  if (unit !== expected.unit) throw new ProtocolError(`a reply of unit ${unit} to a request to unit ${expected.unit}`);
  const code = pdu.readUInt8(0);
  if (code === (expected.functionCode | 0x80)) {
    if (pdu.length !== 2) throw new ProtocolError(`an exception reply of ${pdu.length} bytes, expected 2`);
    return;
  }
  if (code !== expected.functionCode)
    throw new ProtocolError(`a reply with function code ${code} to a request with ${expected.functionCode}`);
  if (expected.bytes === undefined) {
    const length = REPLY_LENGTH[code];
    if (length !== undefined && pdu.length !== length)
      throw new ProtocolError(`a reply of ${pdu.length} bytes to function code ${code}, expected ${length}`);
    return;
  }
  const announced = pdu.readUInt8(1);
  if (announced !== expected.bytes || pdu.length !== 2 + expected.bytes) {
    throw new ProtocolError(`a reply that announces ${announced} data bytes and holds ${pdu.length - 2}, expected ${expected.bytes}`);
  }
}
