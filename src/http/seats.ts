import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * So many connections at a time. Where all seats are taken, the one on which nothing has been asked for longest makes room, so
 * that whoever only sits there keeps nobody out; one on which an answer is awaited never does.
 */
export class Seats {
  private readonly idle = new Map<string, Socket>();
  private count = 0;
  private most: number;

  constructor(most: number) {
    this.most = most;
  }

  /** From now on. */
  allow(most: number): void {
    this.most = most;
  }

  take(socket: Socket): void {
    const name = nameOf(socket);
    if (this.count >= this.most) {
      const [longest] = this.idle;
      if (longest === undefined) {
        socket.destroy();
        return;
      }
      const [other, seated] = longest;
      this.idle.delete(other);
      seated.destroy();
    }
    this.count++;
    this.idle.set(name, socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.count--;
      if (this.idle.get(name) === socket) this.idle.delete(name);
    });
  }

  /** Something is asked on a connection, until it is answered. */
  busy({ socket }: IncomingMessage, response: ServerResponse): void {
    const name = nameOf(socket);
    // Under TLS the socket of a request is not the one that was accepted.
    const seated = this.idle.get(name);
    if (seated === undefined) return;
    this.idle.delete(name);
    response.on('close', () => {
      if (!seated.destroyed) this.idle.set(name, seated);
    });
  }
}

/** The same for a socket and for TLS on top of it. */
const nameOf = (socket: Socket): string => `${socket.remoteAddress} ${socket.remotePort}`;
