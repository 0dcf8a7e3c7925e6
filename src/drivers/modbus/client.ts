import modbusSerial from 'modbus-serial';
import { Durations } from '../../model/durations.ts';
import { ExceptionResponse, ProtocolError, TransportError } from '../../model/errors.ts';
import { isBitTable, type Table } from './address.ts';
import type { Mask } from './codec.ts';
import type { ModbusPort } from './port.ts';
import type { Expectation } from './reply.ts';

const READ_CODE: Readonly<Record<Table, number>> = { coil: 1, discrete: 2, holding: 3, input: 4 };

type Callback<T> = (error: (Error & { modbusCode?: number }) | null, data: T) => void;

/** Read Device Identification, which the library's types leave out in its form with a callback. */
interface Identifying {
  writeFC43<T>(unit: number, code: number, object: number, next: Callback<T>): void;
}

/** The library keeps a transaction until its number comes round again. */
interface Transactions {
  readonly _transactions: Record<number, unknown>;
}

/** Milliseconds that units have to act on a broadcast. */
const BROADCAST_TURNAROUND = 100;

export interface ClientOptions {
  /** What it talks to, for messages: `192.0.2.10:502`, `/dev/ttyUSB0`. */
  readonly peer: string;
  /** A new port for each connection. */
  newPort(): ModbusPort;
  /** Milliseconds for one request. */
  readonly timeout: number;
  /** Milliseconds of silence kept between two requests. */
  readonly requestDelay: number;
}

export interface ClientStatistics {
  requests: number;
  timeouts: number;
  exceptions: number;
  discardedReplies: number;
  protocolErrors: number;
  /** Requests whose connection went before they were answered. */
  lost: number;
  /** Smoothed, in milliseconds. */
  roundTrip: number | undefined;
  readonly roundTrips: Durations;
}

export const noStatistics = (): ClientStatistics => ({
  requests: 0,
  timeouts: 0,
  exceptions: 0,
  discardedReplies: 0,
  protocolErrors: 0,
  lost: 0,
  roundTrip: undefined,
  roundTrips: new Durations(),
});

/** What was sent, in hexadecimal (unit id and PDU), and what is odd about the device's confirmation. */
export interface Acknowledgement {
  readonly wire: string;
  readonly mismatch?: string;
}

/**
 * One open connection. Every call names its unit, every reply is matched field by field, and when the connection
 * is lost all calls fail at once, each exactly once.
 */
export class ModbusClient {
  readonly statistics: ClientStatistics;
  private readonly options: ClientOptions;
  private readonly port: ModbusPort;
  private readonly modbus: InstanceType<typeof modbusSerial.default>;
  private readonly waiting = new Map<number, (error: Error) => void>();
  private quietUntil = 0;

  private constructor(options: ClientOptions, statistics: ClientStatistics) {
    this.options = options;
    this.statistics = statistics;
    this.port = options.newPort();
    this.modbus = new modbusSerial.default(this.port);
  }

  /**
   * @param onDown called once, when the connection is lost after it was made
   * @throws TransportError
   */
  static async connect(options: ClientOptions, statistics: ClientStatistics, onDown: (error: Error) => void): Promise<ModbusClient> {
    const client = new ModbusClient(options, statistics);
    client.port.on('down', (error: Error) => {
      const unanswered = [...client.waiting.values()];
      if (!(error instanceof ProtocolError)) statistics.lost += unanswered.length;
      for (const fail of unanswered) fail(error);
    });
    client.port.on('refused', (transaction: number, error: Error) => {
      statistics.protocolErrors++;
      client.waiting.get(transaction)?.(error);
    });
    await new Promise<void>((resolve, reject) => {
      client.modbus.open((error?: Error | null) => (error ? reject(asTransport(error, options)) : resolve()));
    });
    client.port.on('down', error => onDown(asTransport(error, options)));
    return client;
  }

  get isOpen(): boolean {
    return this.port.isOpen;
  }

  /** Registers as words, bits as 0 and 1: exactly `count` of them. */
  async read(table: Table, unit: number, address: number, count: number): Promise<readonly number[]> {
    const code = READ_CODE[table];
    const bits = isBitTable(table);
    const bytes = bits ? Math.ceil(count / 8) : count * 2;
    type Data = { data: (number | boolean)[] };
    const { data } = await this.call<Data>(unit, code, bytes, next => {
      const done = next as Callback<{ data: never[] }>;
      if (code === 1) this.modbus.writeFC1(unit, address, count, done as never);
      else if (code === 2) this.modbus.writeFC2(unit, address, count, done as never);
      else if (code === 3) this.modbus.writeFC3(unit, address, count, done as never);
      else this.modbus.writeFC4(unit, address, count, done as never);
    });
    return data.slice(0, count).map(Number);
  }

  /** FC05 */
  writeCoil(unit: number, address: number, on: boolean): Promise<Acknowledgement> {
    return this.send<{ address: number; state: boolean }>(
      unit,
      5,
      next => this.modbus.writeFC5(unit, address, on, next as never),
      echo =>
        echoes([
          ['address', echo.address, address],
          ['state', echo.state, on],
        ]),
    );
  }

  /** FC15 */
  writeCoils(unit: number, address: number, states: readonly boolean[]): Promise<Acknowledgement> {
    return this.send<{ address: number; length: number }>(
      unit,
      15,
      next => this.modbus.writeFC15(unit, address, [...states], next as never),
      echo =>
        echoes([
          ['address', echo.address, address],
          ['quantity', echo.length, states.length],
        ]),
    );
  }

  /** FC06 */
  writeRegister(unit: number, address: number, word: number): Promise<Acknowledgement> {
    return this.send<{ address: number; value: number }>(
      unit,
      6,
      next => this.modbus.writeFC6(unit, address, word, next as never),
      echo =>
        echoes([
          ['address', echo.address, address],
          ['value', echo.value, word],
        ]),
    );
  }

  /** FC16 */
  writeRegisters(unit: number, address: number, words: readonly number[]): Promise<Acknowledgement> {
    return this.send<{ address: number; length: number }>(
      unit,
      16,
      next => this.modbus.writeFC16(unit, address, [...words], next as never),
      echo =>
        echoes([
          ['address', echo.address, address],
          ['quantity', echo.length, words.length],
        ]),
    );
  }

  /** FC22 */
  maskRegister(unit: number, address: number, { and, or }: Mask): Promise<Acknowledgement> {
    return this.send<{ address: number; andMask: number; orMask: number }>(
      unit,
      22,
      next => this.modbus.writeFC22(unit, address, and, or, next as never),
      echo =>
        echoes([
          ['address', echo.address, address],
          ['AND mask', echo.andMask, and],
          ['OR mask', echo.orMask, or],
        ]),
    );
  }

  /** FC43/14: vendor, product code and revision, as far as the device tells. */
  async identify(unit: number): Promise<string[]> {
    type Identification = { data: Readonly<Record<number, string>> };
    const { data } = await this.call<Identification>(unit, 43, undefined, next =>
      (this.modbus as unknown as Identifying).writeFC43(unit, 1, 0, next),
    );
    return Object.values(data).filter(text => text !== '');
  }

  /** Milliseconds for which this unit should not be asked, since its late reply may be under way. */
  holdOff(unit: number): number {
    return this.port.holdOff(unit);
  }

  close(): void {
    this.modbus.close(() => undefined);
  }

  /** Drops the connection at once: what was sent and not yet delivered never will be. @returns whether there was one to drop */
  reset(): boolean {
    return this.port.reset();
  }

  /** A broadcast is answered by nobody; the units are given time to act (MODBUS over Serial Line V1.02, 2.4.1). */
  private async broadcast(code: number, write: () => void): Promise<Acknowledgement> {
    const expected: Expectation = { unit: 0, functionCode: code };
    await this.port.ready(expected);
    if (!this.port.isOpen) throw new TransportError('no_connection', `no connection to ${this.options.peer}`, false);
    const transaction = this.port.expect(expected);
    write();
    this.statistics.requests++;
    const wire = this.port.lastRequest.toString('hex');
    await new Promise(resolve => setTimeout(resolve, this.port.transmission(expected) + BROADCAST_TURNAROUND));
    this.port.forget(transaction, false);
    delete (this.modbus as unknown as Transactions)._transactions[transaction];
    return { wire, mismatch: 'it was broadcast, and nobody answers a broadcast' };
  }

  private async send<T>(
    unit: number,
    code: number,
    write: (next: Callback<T>) => void,
    check: (echo: T) => string | undefined,
  ): Promise<Acknowledgement> {
    if (unit === 0 && this.port.broadcasts) return await this.broadcast(code, () => write(() => undefined));
    let wire = '';
    const echo = await this.call<T>(unit, code, undefined, next => {
      write(next);
      wire = this.port.lastRequest.toString('hex');
    });
    const mismatch = check(echo);
    return mismatch === undefined ? { wire } : { wire, mismatch };
  }

  private async call<T>(unit: number, functionCode: number, bytes: number | undefined, write: (next: Callback<T>) => void): Promise<T> {
    const expected: Expectation = { unit, functionCode, ...(bytes !== undefined && { bytes }) };
    const pause = this.quietUntil - performance.now();
    if (pause > 0) await new Promise(resolve => setTimeout(resolve, pause));
    await this.port.ready(expected);
    if (!this.port.isOpen) throw new TransportError('no_connection', `no connection to ${this.options.peer}`, false);
    const started = performance.now();
    const transaction = this.port.expect(expected);
    const within = this.options.timeout + this.port.transmission(expected);
    let timedOut = false;
    this.statistics.requests++;
    try {
      return await new Promise<T>((resolve, reject) => {
        const timer = setTimeout(() => {
          timedOut = true;
          this.statistics.timeouts++;
          settle(() => reject(new TransportError('timeout', `no reply of unit ${unit} within ${this.options.timeout} ms`)));
        }, within);
        const settle = (how: () => void): void => {
          clearTimeout(timer);
          this.waiting.delete(transaction);
          how();
        };
        this.waiting.set(transaction, error => settle(() => reject(asTransport(error, this.options))));
        write((error, data) =>
          settle(() => {
            this.noteRoundTrip(performance.now() - started);
            if (error === null || error === undefined) return resolve(data);
            if (error.modbusCode === undefined) return reject(new ProtocolError(error.message));
            this.statistics.exceptions++;
            return reject(new ExceptionResponse(error.modbusCode));
          }),
        );
      });
    } finally {
      this.port.forget(transaction, timedOut);
      delete (this.modbus as unknown as Transactions)._transactions[transaction];
      this.statistics.discardedReplies += this.port.discardedReplies;
      this.port.discardedReplies = 0;
      this.quietUntil = performance.now() + this.options.requestDelay;
    }
  }

  private noteRoundTrip(ms: number): void {
    this.statistics.roundTrips.add(ms);
    const before = this.statistics.roundTrip;
    this.statistics.roundTrip = before === undefined ? ms : before * 0.9 + ms * 0.1;
  }
}

function echoes(fields: readonly (readonly [string, unknown, unknown])[]): string | undefined {
  const wrong = fields.find(([, got, sent]) => got !== sent);
  return wrong === undefined ? undefined : `the device confirmed ${wrong[0]} ${String(wrong[1])} where ${String(wrong[2])} was sent`;
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the peer reset the connection',
  EPIPE: 'the peer closed the connection',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'the host can not be reached',
  ENETUNREACH: 'the network can not be reached',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the name server does not answer',
};

function asTransport(error: Error, { peer }: ClientOptions): Error {
  if (error instanceof ProtocolError) return error;
  if (error instanceof TransportError) {
    const isNamed = error.kind !== 'no_connection' || error.message.includes(peer);
    return isNamed ? error : new TransportError(error.kind, `${peer}: ${error.message}`, error.sent);
  }
  const code = (error as NodeJS.ErrnoException).code ?? '';
  return new TransportError('no_connection', `${peer}: ${REASONS[code] ?? (code || error.message)}`);
}
