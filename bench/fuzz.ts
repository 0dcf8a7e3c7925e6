import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { mbapFrame } from '../src/drivers/modbus/mbap.ts';
import { hasGoodCrc, type ModbusPort, withCrc } from '../src/drivers/modbus/port.ts';
import type { Expectation } from '../src/drivers/modbus/reply.ts';
import { type ByteLine, RtuPort } from '../src/drivers/modbus/rtu-port.ts';
import { TcpPort } from '../src/drivers/modbus/tcp-port.ts';
import { UdpPort } from '../src/drivers/modbus/udp-port.ts';

/** A port whose bytes the fuzzer makes. */
interface Target {
  readonly port: ModbusPort;
  feed(bytes: Buffer): void;
  /** The bytes of a right reply. */
  frame(transaction: number, unit: number, pdu: Buffer): Buffer;
  /** The one reply in these bytes that may be taken, if there is one; undefined where none may. */
  fitting(bytes: Buffer, transaction: number, expected: Expectation): Buffer | undefined;
}

class FakeSocket extends EventEmitter {
  readyState = 'open';
  write(): boolean {
    return true;
  }
  destroy(): void {
    this.readyState = 'closed';
  }
  destroySoon(): void {
    this.destroy();
  }
  resetAndDestroy(): void {
    this.destroy();
  }
}

function fits({ unit, functionCode, bytes = 0 }: Expectation, gotUnit: number, pdu: Buffer): boolean {
  if (gotUnit !== unit) return false;
  if (pdu[0] === (functionCode | 0x80)) return pdu.length === 2;
  return pdu[0] === functionCode && pdu[1] === bytes && pdu.length === 2 + bytes;
}

/** Frames as the specification defines them, cut independently of the code that is tested. */
function mbapFrames(bytes: Buffer): { transaction: number; unit: number; pdu: Buffer }[] {
  const frames = [];
  for (let at = 0; at + 6 <= bytes.length; ) {
    const length = bytes.readUInt16BE(at + 4);
    if (bytes.readUInt16BE(at + 2) !== 0 || length < 3 || length > 254 || at + 6 + length > bytes.length) break;
    frames.push({ transaction: bytes.readUInt16BE(at), unit: bytes.readUInt8(at + 6), pdu: bytes.subarray(at + 7, at + 6 + length) });
    at += 6 + length;
  }
  return frames;
}

const fittingMbap: Target['fitting'] = (bytes, transaction, expected) =>
  mbapFrames(bytes).find(one => one.transaction === transaction && fits(expected, one.unit, one.pdu))?.pdu;

function tcpTarget(): Target {
  const socket = new FakeSocket();
  const port = new TcpPort(() => socket as unknown as Socket, 'connect', 1000);
  port.open(() => undefined);
  socket.emit('connect');
  return { port, feed: bytes => socket.emit('data', bytes), frame: mbapFrame, fitting: fittingMbap };
}

function udpTarget(): Target {
  const port = new UdpPort('127.0.0.1', 1);
  const inner = port as unknown as { receive(datagram: Buffer): void; socket: unknown };
  inner.socket = { send: () => undefined, close: () => undefined };
  return { port, feed: bytes => inner.receive(bytes), frame: mbapFrame, fitting: fittingMbap };
}

function rtuTarget(): Target {
  let data: (chunk: Buffer) => void = () => undefined;
  const line: ByteLine = {
    isOpen: true,
    open: events => {
      data = events.data;
      events.open();
    },
    write: () => undefined,
    close: () => undefined,
  };
  const port = new RtuPort(line, { character: 0, silence: 0, timeout: 0, echo: false, redials: true });
  port.open(() => undefined);
  return {
    port,
    feed: bytes => data(bytes),
    frame: (_, unit, pdu) => withCrc(unit, pdu),
    fitting: (bytes, _, expected) => {
      for (let start = 0; start < bytes.length; start++) {
        for (const length of [5, 5 + (expected.bytes ?? 0)]) {
          const frame = bytes.subarray(start, start + length);
          if (frame.length === length && hasGoodCrc(frame) && fits(expected, frame.readUInt8(0), frame.subarray(1, -2)))
            return frame.subarray(1, -2);
        }
      }
      return undefined;
    },
  };
}

const TARGETS: Readonly<Record<string, () => Target>> = { tcp: tcpTarget, udp: udpTarget, rtu: rtuTarget };

/** A small generator of numbers that a seed repeats (mulberry32). */
function random(seed: number): (below: number) => number {
  let state = seed;
  return below => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * below);
  };
}

function mutate(bytes: Buffer, pick: (below: number) => number): Buffer {
  const other = Buffer.from(bytes);
  switch (pick(8)) {
    case 0:
      return other;
    case 1:
      for (let i = 0; i <= pick(3); i++) other[pick(other.length)] = pick(256);
      return other;
    case 2:
      return other.subarray(0, pick(other.length));
    case 3:
      return Buffer.concat([other, Buffer.from(Array.from({ length: 1 + pick(12) }, () => pick(256)))]);
    case 4:
      return Buffer.concat([Buffer.from(Array.from({ length: 1 + pick(12) }, () => pick(256))), other]);
    case 5:
      return Buffer.concat([other, other]);
    case 6: {
      const at = pick(other.length);
      other[at] = (other[at] ?? 0) ^ (1 << pick(8));
      return other;
    }
    default:
      return Buffer.from(Array.from({ length: pick(300) }, () => pick(256)));
  }
}

export interface FuzzResult {
  readonly transport: string;
  readonly replies: number;
  readonly taken: number;
  readonly redialled: number;
}

/**
 * Random and mutated replies into each transport. Nothing may be thrown out of it, and a reply may be taken only if every
 * field of it fits.
 *
 * @throws where one of the two does not hold, with the seed and the bytes
 */
export function fuzzReplies(count: number, seed: number): FuzzResult[] {
  return Object.entries(TARGETS).map(([transport, make]) => {
    const pick = random(seed);
    let target = make();
    let [taken, redialled] = [0, 0];
    for (let i = 0; i < count; i++) {
      if (!target.port.isOpen) {
        target = make();
        redialled++;
      }
      const expected: Expectation = { unit: pick(256), functionCode: 1 + pick(4), bytes: 2 * (1 + pick(20)) };
      const transaction = target.port.expect(expected);
      let got: Buffer | undefined;
      target.port.once('data', (rtu: Buffer) => {
        got = rtu.subarray(1, -2);
      });
      target.port.write(withCrc(expected.unit, Buffer.from([expected.functionCode, 0, 0, 0, 1])));
      const right = Buffer.from([
        expected.functionCode,
        expected.bytes ?? 0,
        ...Array.from({ length: expected.bytes ?? 0 }, () => pick(256)),
      ]);
      const exception = Buffer.from([expected.functionCode | 0x80, 1 + pick(11)]);
      const sent = mutate(target.frame(transaction, expected.unit, pick(5) === 0 ? exception : right), pick);
      const where = `${transport}, seed ${seed}, reply ${i}: ${sent.toString('hex')}`;
      try {
        // In pieces, as a network cuts them.
        const cut = transport === 'udp' ? sent.length : pick(sent.length + 1);
        target.feed(sent.subarray(0, cut));
        if (cut < sent.length) target.feed(sent.subarray(cut));
      } catch (error) {
        throw new Error(`${where} threw ${String(error)}`);
      }
      target.port.removeAllListeners('data');
      const fitting = target.fitting(sent, transaction, expected);
      if (got !== undefined && (fitting === undefined || !got.equals(fitting)))
        throw new Error(`${where} was taken as ${got.toString('hex')}`);
      if (got !== undefined) taken++;
      target.port.forget(transaction, false);
      // What is left over of a reply belongs to no later one.
      if (got === undefined) target = make();
    }
    return { transport, replies: count, taken, redialled };
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const count = Number(process.argv[2] ?? 100_000);
  const seed = Number(process.argv[3] ?? Date.now() % 1_000_000);
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (const { transport, replies, taken, redialled } of fuzzReplies(count, seed))
    process.stdout.write(`${transport}: ${replies} replies, ${taken} fitted and were taken, ${redialled} times dialled anew\n`);
  globalThis.gc?.();
  process.stdout.write(`seed ${seed}; heap ${((process.memoryUsage().heapUsed - before) / 1e6).toFixed(1)} MB more than before\n`);
}
