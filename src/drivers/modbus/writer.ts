import { ExceptionResponse, ProtocolError, TransportError } from '../../model/errors.ts';
import { bad, type Sample, sampleOf } from '../../model/sample.ts';
import type { Value } from '../../model/value.ts';
import { Refusal, type WriteReceipt } from '../../model/write.ts';
import { NoReply, type WriteSteps } from '../driver.ts';
import type { Acknowledgement, ModbusClient } from './client.ts';
import { type Encoded, type Mask, scaleFactor } from './codec.ts';
import type { ModbusConnection } from './connection.ts';
import type { ModbusPoint } from './point.ts';
import type { DeviceReader } from './reader.ts';

/** The device does not know this function: nothing was written (MODBUS Application Protocol V1.1b3, 7). */
const ILLEGAL_FUNCTION = 1;
/** The device took the request and is still at it: accepted, not refused. */
const ACKNOWLEDGE = 5;

/** One way to write, its request as hexadecimal (unit id and PDU) for those who want to see it first. */
interface Attempt {
  readonly functionCode: number;
  readonly preview: string;
  send(client: ModbusClient): Promise<Acknowledgement>;
}

/** Writes the points of one device, each value in one request, and remembers which functions the device knows. */
export class DeviceWriter {
  private readonly reader: DeviceReader;
  private readonly connection: ModbusConnection;
  private readonly unknownFunctions = new Set<number>();
  private readonly readerOf: (device: string) => DeviceReader;

  constructor(reader: DeviceReader, connection: ModbusConnection, readerOf: (device: string) => DeviceReader) {
    this.reader = reader;
    this.readerOf = readerOf;
    this.connection = connection;
  }

  write(point: ModbusPoint, value: Value, steps: WriteSteps, signal: AbortSignal): Promise<WriteReceipt | undefined> {
    return this.connection.bus.submit({
      priority: 'write',
      device: this.reader.settings.name,
      exclusive: true,
      signal,
      run: client => this.inSlot(client, point, value, steps),
    });
  }

  private async inSlot(client: ModbusClient, point: ModbusPoint, value: Value, steps: WriteSteps): Promise<WriteReceipt | undefined> {
    const { sample, factor } = await this.present(client, point);
    const linear = factor === undefined ? undefined : scaleFactor(factor.value);
    if (point.factor !== undefined && linear === undefined) {
      throw new Refusal(
        'grid',
        `the scale factor ${point.factor.name} can not be read, so the value can not be put into the device's terms`,
      );
    }
    const attempts = this.attempts(point, point.table === 'coil' ? undefined : point.codec.encode(value, linear), value === true);
    const beside = await this.readBeside(client, (steps.beside ?? []) as readonly ModbusPoint[]);
    const preview = attempts.slice(0, 1).map(attempt => attempt.preview);
    if (!(await steps.approve(sample, preview, beside))) return undefined;
    return await this.attempt(client, attempts);
  }

  /** What somebody who decides wants to see, as it is now: a device in trouble gives a bad sample. */
  private async readBeside(client: ModbusClient, points: readonly ModbusPoint[]): Promise<Sample[]> {
    const samples: Sample[] = [];
    for (const point of points) {
      try {
        samples.push((await this.readerOf(point.device).readInSlot(client, point)).sample);
      } catch (error) {
        if (!(error instanceof TransportError || error instanceof ProtocolError)) throw error;
        samples.push(sampleOf(point, bad(error instanceof TransportError && error.kind === 'timeout' ? 'timeout' : 'no_connection')));
      }
    }
    return samples;
  }

  private async present(client: ModbusClient, point: ModbusPoint): ReturnType<DeviceReader['readInSlot']> {
    try {
      const present = await this.reader.readInSlot(client, point);
      this.connection.noteReply();
      return present;
    } catch (error) {
      if (error instanceof TransportError && error.kind === 'timeout') this.connection.noteTimeout(client, this.reader.settings.unit);
      throw error;
    }
  }

  /** The requests that would do it, best first; the others are for devices that answer that they do not know the first. */
  private attempts(point: ModbusPoint, encoded: Encoded | undefined, on: boolean): Attempt[] {
    const { unit } = this.reader.settings;
    const { writeFunction } = point;
    const address = this.reader.addressOf(point);
    const hex = (...words: number[]): string => words.map(word => word.toString(16).padStart(4, '0')).join('');
    const head = (code: number): string => hex((unit << 8) | code);
    const attempt = (functionCode: number, preview: string, send: Attempt['send']): Attempt => ({
      functionCode,
      preview: head(functionCode) + preview,
      send,
    });
    if (encoded === undefined) {
      const single = attempt(5, hex(address, on ? 0xff00 : 0), client => client.writeCoil(unit, address, on));
      const multiple = attempt(15, `${hex(address, 1)}01${on ? '01' : '00'}`, client => client.writeCoils(unit, address, [on]));
      return this.inOrder([single, multiple], writeFunction);
    }
    if ('mask' in encoded) {
      const { mask } = encoded;
      const atomic = attempt(22, hex(address, mask.and, mask.or), client => client.maskRegister(unit, address, mask));
      const readFirst = (code: 6 | 16): Attempt => attempt(code, hex(address), client => this.readModifyWrite(client, point, mask, code));
      return this.known([atomic, readFirst(6), readFirst(16)]);
    }
    const words = encoded.registers;
    const multiple = attempt(
      16,
      `${hex(address, words.length)}${(words.length * 2).toString(16).padStart(2, '0')}${hex(...words)}`,
      client => client.writeRegisters(unit, address, words),
    );
    const [only] = words;
    if (words.length > 1 || only === undefined) return [multiple];
    const single = attempt(6, hex(address, only), client => client.writeRegister(unit, address, only));
    return this.inOrder([single, multiple], writeFunction);
  }

  private inOrder([single, multiple]: readonly [Attempt, Attempt], wanted: ModbusPoint['writeFunction']): Attempt[] {
    if (wanted === 'single') return [single];
    if (wanted === 'multiple') return [multiple];
    return this.known([single, multiple]);
  }

  /** Without the functions that the device did not know; where it knew none of them, all are tried again. */
  private known(attempts: readonly Attempt[]): Attempt[] {
    const left = attempts.filter(attempt => !this.unknownFunctions.has(attempt.functionCode));
    return left.length > 0 ? left : [...attempts];
  }

  private async attempt(client: ModbusClient, attempts: readonly Attempt[]): Promise<WriteReceipt> {
    const wire: string[] = [];
    for (const [i, attempt] of attempts.entries()) {
      try {
        const { wire: sent, mismatch } = await attempt.send(client);
        wire.push(sent);
        this.connection.noteReply();
        return mismatch === undefined ? { wire } : { wire, mismatch };
      } catch (error) {
        if (!(error instanceof ExceptionResponse)) throw this.lostReply(client, error, [...wire, attempt.preview]);
        this.connection.noteReply();
        wire.push(attempt.preview);
        // Accepted, and still at work: reading back tells how it ended.
        if (error.exception === ACKNOWLEDGE) return { wire };
        if (error.exception !== ILLEGAL_FUNCTION || i === attempts.length - 1) throw error;
        this.unknownFunctions.add(attempt.functionCode);
      }
    }
    throw new Error('a write without an attempt');
  }

  /** Nobody knows whether the device acted. The connection goes, so that the request can not arrive late. */
  private lostReply(client: ModbusClient, error: unknown, wire: readonly string[]): unknown {
    if (!(error instanceof TransportError || error instanceof ProtocolError)) return error;
    if (error instanceof TransportError && !error.sent) return error;
    this.connection.reset(client);
    return new NoReply(error.message, wire);
  }

  /** For devices without FC22: the other bits are those of a reading made in the same slot of the bus. */
  private async readModifyWrite(client: ModbusClient, point: ModbusPoint, { and, or }: Mask, code: 6 | 16): Promise<Acknowledgement> {
    const { unit } = this.reader.settings;
    const [word = 0] = await client.read('holding', unit, this.reader.addressOf(point), 1).catch((error: unknown) => {
      throw error instanceof TransportError ? new TransportError(error.kind, error.message, false) : error;
    });
    const next = (word & and) | (or & ~and & 0xffff);
    return code === 6
      ? await client.writeRegister(unit, this.reader.addressOf(point), next)
      : await client.writeRegisters(unit, this.reader.addressOf(point), [next]);
  }
}
