import { createSocket, type Socket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import { ProtocolError, TransportError } from '../../model/errors.ts';
import { MbapParser, mbapFrame } from './mbap.ts';
import { closed, ModbusPort, once } from './port.ts';

/** Modbus over UDP: a frame of Modbus/TCP in each datagram. What is lost is found by its timeout. */
export class UdpPort extends ModbusPort {
  private readonly host: string;
  private readonly port: number;
  private socket: Socket | undefined;

  constructor(host: string, port: number) {
    super();
    this.host = host;
    this.port = port;
  }

  get isOpen(): boolean {
    return this.socket !== undefined && this.failure === undefined;
  }

  open(callback: (error?: Error) => void): void {
    const answer = once(callback);
    const socket = createSocket(isIPv6(this.host) ? 'udp6' : 'udp4');
    socket.on('message', datagram => this.receive(datagram));
    socket.on('error', error => {
      this.fail(error);
      this.socket = undefined;
      socket.close();
      answer(error);
    });
    socket.connect(this.port, this.host, () => {
      this.socket = socket;
      answer();
    });
  }

  close(callback?: () => void): void {
    this.fail(closed());
    this.socket?.close();
    this.socket = undefined;
    callback?.();
  }

  reset(): boolean {
    this.fail(new TransportError('no_connection', 'the socket was closed'));
    this.socket?.close();
    this.socket = undefined;
    return true;
  }

  protected send(transaction: number, unit: number, pdu: Buffer): void {
    // A datagram that can not leave is one that was lost.
    this.socket?.send(mbapFrame(transaction, unit, pdu), () => undefined);
  }

  /** A datagram that is no frame, or does not fit, is dropped by itself: the next one starts anew. */
  private receive(datagram: Buffer): void {
    try {
      const frames = new MbapParser().push(datagram);
      if (frames.length === 0) this.discardedReplies++;
      for (const frame of frames) this.match(frame);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.discardedReplies++;
    }
  }
}
