import type { Socket } from 'node:net';
import { ProtocolError, TransportError } from '../../model/errors.ts';
import { MbapParser, mbapFrame } from './mbap.ts';
import { closed, ModbusPort, once } from './port.ts';

/**
 * Modbus/TCP and Modbus/TCP Security (MODBUS Messaging on TCP/IP V1.0b; MODBUS/TCP Security V3.6). In place of the
 * library's own TCP port: the header of every reply is checked, transactions are 16 bits wide, and a reply that nobody
 * waits for is counted and dropped before the library sees it.
 */
export class TcpPort extends ModbusPort {
  private readonly dial: () => Socket;
  private readonly readyEvent: 'connect' | 'secureConnect';
  private readonly connectTimeout: number;
  private readonly parser = new MbapParser();
  private socket: Socket | undefined;

  /** @param dial makes the socket, which is ready with the event of that name */
  constructor(dial: () => Socket, readyEvent: TcpPort['readyEvent'], connectTimeout: number) {
    super();
    this.dial = dial;
    this.readyEvent = readyEvent;
    this.connectTimeout = connectTimeout;
  }

  get isOpen(): boolean {
    return this.socket !== undefined && this.failure === undefined && this.socket.readyState === 'open';
  }

  open(callback: (error?: Error) => void): void {
    const answer = once(callback);
    this.socket = openSocket(this.dial, this.readyEvent, this.connectTimeout, answer, error => {
      this.fail(error);
      answer(this.failure);
    });
    this.socket.on('data', chunk => this.receive(chunk));
  }

  close(callback?: () => void): void {
    this.fail(closed());
    this.socket?.destroySoon();
    callback?.();
  }

  reset(): boolean {
    this.fail(new TransportError('no_connection', 'the connection was reset'));
    dropSocket(this.socket);
    return true;
  }

  protected send(transaction: number, unit: number, pdu: Buffer): void {
    this.socket?.write(mbapFrame(transaction, unit, pdu));
  }

  private receive(chunk: Buffer): void {
    if (this.failure !== undefined) return;
    try {
      for (const frame of this.parser.push(chunk)) this.match(frame);
    } catch (error) {
      this.fail(error instanceof Error ? error : new ProtocolError(String(error)));
      dropSocket(this.socket);
    }
  }
}

/** Dials, and tells once that it is open, and once that it is down. */
export function openSocket(
  dial: () => Socket,
  readyEvent: 'connect' | 'secureConnect',
  within: number,
  onOpen: () => void,
  onDown: (error: Error) => void,
): Socket {
  const socket = dial();
  const late = new TransportError('no_connection', `no connection within ${within} ms`);
  const timer = setTimeout(() => socket.destroy(late), within);
  socket.on(readyEvent, () => {
    clearTimeout(timer);
    onOpen();
  });
  socket.on('error', onDown);
  socket.on('close', () => {
    clearTimeout(timer);
    onDown(new TransportError('no_connection', 'the peer closed the connection'));
  });
  return socket;
}

/** A socket under TLS can not be reset by itself; what is below it is. */
export function dropSocket(socket: Socket | undefined): void {
  if (socket === undefined) return;
  if ('encrypted' in socket) socket.destroy();
  else socket.resetAndDestroy();
}
