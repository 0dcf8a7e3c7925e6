import type { Socket } from 'node:net';
import type { SerialPort } from 'serialport';
import { TransportError, wordsOf } from '../../model/errors.ts';
import type { ByteLine } from './rtu-port.ts';
import { dropSocket, openSocket } from './tcp-port.ts';

export interface SerialSettings {
  readonly path: string;
  readonly baudRate: number;
  readonly dataBits: 7 | 8;
  readonly parity: 'none' | 'even' | 'odd';
  readonly stopBits: 1 | 2;
}

const SERIAL_REASONS: readonly (readonly [RegExp, string])[] = [
  [/no such file|ENOENT|cannot find/i, 'there is no such device; is the adapter plugged in?'],
  [/permission|EACCES/i, 'permission denied; is the user in the group dialout?'],
  [/busy|lock|EBUSY/i, 'another program has it open'],
];

/** A serial device. Pulled out, it is down; plugged in again, the next attempt opens it. */
export class SerialLine implements ByteLine {
  private readonly settings: SerialSettings;
  private port: SerialPort | undefined;
  private isClosed = false;

  constructor(settings: SerialSettings) {
    this.settings = settings;
  }

  get isOpen(): boolean {
    return this.port?.isOpen === true && !this.isClosed;
  }

  open(events: Parameters<ByteLine['open']>[0]): void {
    this.dial(events).catch((error: unknown) => events.down(this.reason(error)));
  }

  write(bytes: Buffer): void {
    this.port?.write(bytes);
  }

  close(): void {
    this.isClosed = true;
    if (this.port?.isOpen) this.port.close(() => undefined);
  }

  private async dial(events: Parameters<ByteLine['open']>[0]): Promise<void> {
    const { SerialPort: Port } = await import('serialport').catch(() => {
      throw new TransportError('no_connection', 'serial lines need the package serialport, which is not installed here');
    });
    const port = new Port({ ...this.settings, autoOpen: false });
    this.port = port;
    port.on('data', (chunk: Buffer) => events.data(chunk));
    port.on('error', error => events.down(this.reason(error)));
    port.on('close', () => events.down(new TransportError('no_connection', `${this.settings.path}: the device has gone`)));
    await new Promise<void>((resolve, reject) => port.open(error => (error ? reject(error) : resolve())));
    if (this.isClosed) port.close(() => undefined);
    else events.open();
  }

  private reason(error: unknown): Error {
    if (error instanceof TransportError) return error;
    const message = wordsOf(error);
    const known = SERIAL_REASONS.find(([pattern]) => pattern.test(message))?.[1];
    return new TransportError('no_connection', `${this.settings.path}: ${known ?? message}`);
  }
}

/** A TCP socket to a converter that passes bytes on to its serial line. */
export class SocketLine implements ByteLine {
  private readonly dial: () => Socket;
  private readonly within: number;
  private socket: Socket | undefined;

  constructor(dial: () => Socket, within: number) {
    this.dial = dial;
    this.within = within;
  }

  get isOpen(): boolean {
    return this.socket?.readyState === 'open';
  }

  open(events: Parameters<ByteLine['open']>[0]): void {
    this.socket = openSocket(this.dial, 'connect', this.within, events.open, events.down);
    this.socket.on('data', events.data);
  }

  write(bytes: Buffer): void {
    this.socket?.write(bytes);
  }

  close(): void {
    dropSocket(this.socket);
  }
}
