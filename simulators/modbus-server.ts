import type { Socket } from 'node:net';
import { TcpListener } from './tcp-listener.ts';

/** What a device answers in place of a value: a Modbus exception code. */
export class Exception {
  readonly code: number;
  constructor(code: number) {
    this.code = code;
  }
}

export type TableName = 'coil' | 'discrete' | 'input' | 'holding';

/** The addresses of one unit: what it holds, what it refuses, and what happens when it is written. */
export interface Unit {
  /** A word, or 0 and 1 in the bit tables; undefined: there is no such address. */
  read(table: TableName, address: number): number | undefined | Exception;
  /** undefined: accepted. */
  write(table: 'coil' | 'holding', address: number, value: number): undefined | Exception;
  /** Function codes that the unit does not know, and answers with exception 1. */
  readonly unknownFunctions?: ReadonlySet<number>;
}

/** Four sparse tables that hold what was last put into them. */
export class MemoryUnit implements Unit {
  unknownFunctions: ReadonlySet<number> = new Set();
  readonly tables: Readonly<Record<TableName, Map<number, number>>> = {
    coil: new Map(),
    discrete: new Map(),
    input: new Map(),
    holding: new Map(),
  };
  /** Called for each accepted write. */
  onWrite: (table: 'coil' | 'holding', address: number, value: number) => void = () => undefined;

  set(table: TableName, address: number, ...values: readonly number[]): this {
    for (const [i, value] of values.entries()) this.tables[table].set(address + i, value);
    return this;
  }

  read(table: TableName, address: number): number | undefined | Exception {
    return this.tables[table].get(address);
  }

  write(table: 'coil' | 'holding', address: number, value: number): undefined | Exception {
    if (!this.tables[table].has(address)) return new Exception(2);
    this.tables[table].set(address, value);
    this.onWrite(table, address, value);
    return undefined;
  }
}

const READ_TABLES: Readonly<Record<number, TableName>> = { 1: 'coil', 2: 'discrete', 3: 'holding', 4: 'input' };

/** Answers one request as a Modbus server does (MODBUS Application Protocol V1.1b3, chapter 6). Pure but for the unit. */
export function answer(unit: Unit, pdu: Buffer): Buffer {
  const code = pdu.readUInt8(0);
  const refuse = (exception: number): Buffer => Buffer.from([code | 0x80, exception]);
  if (unit.unknownFunctions?.has(code)) return refuse(1);
  try {
    const result = execute(unit, code, pdu);
    return result instanceof Exception ? refuse(result.code) : result;
  } catch (error) {
    if (error instanceof RangeError) return refuse(3);
    throw error;
  }
}

function execute(unit: Unit, code: number, pdu: Buffer): Buffer | Exception {
  const table = READ_TABLES[code];
  if (table !== undefined) return readMany(unit, table, code, pdu.readUInt16BE(1), pdu.readUInt16BE(3));
  switch (code) {
    case 5: {
      const state = pdu.readUInt16BE(3);
      if (state !== 0 && state !== 0xff00) return new Exception(3);
      return unit.write('coil', pdu.readUInt16BE(1), state === 0 ? 0 : 1) ?? pdu.subarray(0, 5);
    }
    case 6:
      return unit.write('holding', pdu.readUInt16BE(1), pdu.readUInt16BE(3)) ?? pdu.subarray(0, 5);
    case 15:
    case 16:
      return writeMany(unit, code, pdu);
    case 22: {
      const address = pdu.readUInt16BE(1);
      const [and, or] = [pdu.readUInt16BE(3), pdu.readUInt16BE(5)];
      const word = unit.read('holding', address);
      if (word === undefined) return new Exception(2);
      if (word instanceof Exception) return word;
      return unit.write('holding', address, (word & and) | (or & ~and & 0xffff)) ?? pdu.subarray(0, 7);
    }
    default:
      return new Exception(1);
  }
}

function readMany(unit: Unit, table: TableName, code: number, address: number, count: number): Buffer | Exception {
  const bits = table === 'coil' || table === 'discrete';
  if (count < 1 || count > (bits ? 2000 : 125)) return new Exception(3);
  if (address + count > 65536) return new Exception(2);
  const reply = Buffer.alloc(2 + (bits ? Math.ceil(count / 8) : count * 2));
  reply.writeUInt8(code, 0);
  reply.writeUInt8(reply.length - 2, 1);
  for (let i = 0; i < count; i++) {
    const value = unit.read(table, address + i);
    if (value === undefined) return new Exception(2);
    if (value instanceof Exception) return value;
    if (bits) reply[2 + (i >> 3)] = (reply[2 + (i >> 3)] ?? 0) | ((value & 1) << (i & 7));
    else reply.writeUInt16BE(value & 0xffff, 2 + i * 2);
  }
  return reply;
}

function writeMany(unit: Unit, code: 15 | 16, pdu: Buffer): Buffer | Exception {
  const [address, count, bytes] = [pdu.readUInt16BE(1), pdu.readUInt16BE(3), pdu.readUInt8(5)];
  const isBits = code === 15;
  if (count < 1 || count > (isBits ? 1968 : 123) || bytes !== (isBits ? Math.ceil(count / 8) : count * 2) || pdu.length < 6 + bytes)
    return new Exception(3);
  for (let i = 0; i < count; i++) {
    const value = isBits ? (pdu.readUInt8(6 + (i >> 3)) >> (i & 7)) & 1 : pdu.readUInt16BE(6 + i * 2);
    const refused = unit.write(isBits ? 'coil' : 'holding', address + i, value);
    if (refused !== undefined) return refused;
  }
  return pdu.subarray(0, 5);
}

export interface ServerOptions {
  /** Milliseconds before each answer. */
  readonly delay?: number;
}

/** A Modbus/TCP server over the units of a simulated plant. A unit that is not there does not answer. */
export class ModbusTcpServer extends TcpListener {
  readonly units: Map<number, Unit>;
  /** Requests so far: unit id and PDU, for those who want to see what was asked. */
  readonly requests: { readonly unit: number; readonly pdu: Buffer }[] = [];
  /** How many of the last requests are kept. */
  keepRequests = 0;
  private readonly options: ServerOptions;

  constructor(units: ReadonlyMap<number, Unit>, options: ServerOptions = {}) {
    super();
    this.units = new Map(units);
    this.options = options;
  }

  protected serve(socket: Socket): void {
    let rest = Buffer.alloc(0);
    socket.on('data', chunk => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= 8) {
        const length = rest.readUInt16BE(4);
        if (rest.readUInt16BE(2) !== 0 || length < 2 || length > 254) return void socket.destroy();
        if (rest.length < 6 + length) break;
        this.reply(socket, rest.subarray(0, 6 + length));
        rest = rest.subarray(6 + length);
      }
      return undefined;
    });
  }

  private reply(socket: Socket, frame: Buffer): void {
    const id = frame.readUInt8(6);
    const pdu = frame.subarray(7);
    if (this.keepRequests > 0) {
      this.requests.push({ unit: id, pdu: Buffer.from(pdu) });
      if (this.requests.length > this.keepRequests) this.requests.shift();
    }
    const unit = this.units.get(id);
    if (unit === undefined) return;
    const body = answer(unit, pdu);
    const reply = Buffer.alloc(7 + body.length);
    frame.copy(reply, 0, 0, 4);
    reply.writeUInt16BE(body.length + 1, 4);
    reply.writeUInt8(id, 6);
    body.copy(reply, 7);
    const send = (): void => void (socket.writable && socket.write(reply));
    if (this.options.delay === undefined) send();
    else setTimeout(send, this.options.delay);
  }
}
