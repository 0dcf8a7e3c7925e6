import type { Socket } from 'node:net';
import { hasGoodCrc, withCrc } from '../src/drivers/modbus/port.ts';
import { answer, type Unit } from './modbus-server.ts';
import { TcpListener } from './tcp-listener.ts';

const FIXED_REQUEST = 8;
const UNIT_AND_CRC = 3;

/** Length of an RTU request with its unit and CRC, as far as its first bytes tell; undefined: not yet. */
function requestLength(bytes: Buffer): number | undefined {
  const code = bytes[1];
  if (code === undefined) return undefined;
  if (code === 15 || code === 16) return bytes.length < 7 ? undefined : 9 + bytes.readUInt8(6);
  if (code === 22) return 10;
  if (code === 43) return 7;
  if (code === 17) return 4;
  return FIXED_REQUEST;
}

/** What came in, and how the test may answer it. */
export interface RtuRequest {
  readonly unit: number;
  readonly pdu: Buffer;
  readonly socket: Socket;
  readonly number: number;
}

/**
 * A serial line with units behind a TCP converter: RTU frames, each with its CRC, without transaction ids. A unit that is
 * not there does not answer, and a frame that is damaged is answered by none.
 */
export class ModbusRtuServer extends TcpListener {
  readonly requests: RtuRequest[] = [];
  /** Replaces the answer of the units; bytes are sent as they are. */
  intercept: ((request: RtuRequest) => Buffer | undefined | 'usual') | undefined;
  private readonly units: ReadonlyMap<number, Unit>;

  constructor(units: ReadonlyMap<number, Unit>) {
    super();
    this.units = units;
  }

  protected serve(socket: Socket): void {
    let rest = Buffer.alloc(0);
    socket.on('data', chunk => {
      rest = Buffer.concat([rest, chunk]);
      for (let length = requestLength(rest); length !== undefined && rest.length >= length; length = requestLength(rest)) {
        const frame = rest.subarray(0, length);
        rest = rest.subarray(length);
        if (hasGoodCrc(frame))
          this.reply({
            unit: frame.readUInt8(0),
            pdu: Buffer.from(frame.subarray(1, length - UNIT_AND_CRC + 1)),
            socket,
            number: this.requests.length,
          });
      }
    });
  }

  private reply(request: RtuRequest): void {
    this.requests.push(request);
    const other = this.intercept === undefined ? 'usual' : this.intercept(request);
    if (other === undefined) return;
    const unit = this.units.get(request.unit);
    const bytes = other !== 'usual' ? other : unit === undefined ? undefined : withCrc(request.unit, answer(unit, request.pdu));
    if (bytes !== undefined && request.socket.writable) request.socket.write(bytes);
  }
}
