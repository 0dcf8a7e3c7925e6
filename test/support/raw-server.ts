import { createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** One request as it came: its header and what follows. */
export interface RawRequest {
  readonly transaction: number;
  readonly unit: number;
  readonly pdu: Buffer;
  readonly socket: Socket;
  /** Counts from 0 over all connections. */
  readonly number: number;
}

/** A server whose every byte the test decides. */
export class RawServer {
  connections = 0;
  readonly requests: RawRequest[] = [];
  private readonly sockets = new Set<Socket>();
  private readonly server;
  private readonly onRequest: (request: RawRequest) => void;
  private port = 0;

  private constructor(onRequest: (request: RawRequest) => void) {
    this.onRequest = onRequest;
    this.server = createServer(socket => this.serve(socket));
  }

  static async start(onRequest: (request: RawRequest) => void): Promise<RawServer> {
    const server = new RawServer(onRequest);
    await server.listen();
    onTestFinished(() => server.close());
    return server;
  }

  get address(): number {
    return this.port;
  }

  get open(): number {
    return this.sockets.size;
  }

  /** On the port that it had before, if it had one. */
  async listen(): Promise<void> {
    await new Promise<void>(resolve => this.server.listen(this.port, '127.0.0.1', resolve));
    const address = this.server.address();
    if (typeof address === 'object' && address !== null) this.port = address.port;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    if (this.server.listening) await new Promise(resolve => this.server.close(resolve));
  }

  private serve(socket: Socket): void {
    this.connections++;
    this.sockets.add(socket);
    let rest = Buffer.alloc(0);
    socket.setNoDelay(true);
    socket.on('close', () => this.sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.on('data', chunk => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= 8 && rest.length >= 6 + rest.readUInt16BE(4)) {
        const end = 6 + rest.readUInt16BE(4);
        const request = {
          transaction: rest.readUInt16BE(0),
          unit: rest.readUInt8(6),
          pdu: Buffer.from(rest.subarray(7, end)),
          socket,
          number: this.requests.length,
        };
        rest = rest.subarray(end);
        this.requests.push(request);
        this.onRequest(request);
      }
    });
  }
}

export function frame(transaction: number, unit: number, pdu: Buffer | readonly number[]): Buffer {
  const body = Buffer.from(pdu);
  const head = Buffer.alloc(7);
  head.writeUInt16BE(transaction, 0);
  head.writeUInt16BE(body.length + 1, 4);
  head.writeUInt8(unit, 6);
  return Buffer.concat([head, body]);
}

/** The reply to a read of registers: each holds its own address, or what the test says. */
export function registersReply({ pdu }: RawRequest, value: (address: number) => number = address => address): Buffer {
  const [address, count] = [pdu.readUInt16BE(1), pdu.readUInt16BE(3)];
  const reply = Buffer.alloc(2 + count * 2);
  reply.writeUInt8(pdu.readUInt8(0), 0);
  reply.writeUInt8(count * 2, 1);
  for (let i = 0; i < count; i++) reply.writeUInt16BE(value(address + i) & 0xffff, 2 + i * 2);
  return reply;
}

export function respond(request: RawRequest, pdu: Buffer | readonly number[] = registersReply(request)): void {
  if (request.socket.writable) request.socket.write(frame(request.transaction, request.unit, pdu));
}
