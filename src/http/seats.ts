import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface Seat {
  readonly socket: Socket;
  /** Requests that are not answered yet: more than one may come at once. */
  asked: number;
}

/**
 * So many connections at a time. Where all seats are taken, the one on which nothing has been asked for longest makes room, so
 * that whoever only sits there keeps nobody out; one on which an answer is awaited never does.
 */
export class Seats {
  private readonly seats = new Map<string, Seat>();
  /** Those on which nothing is asked, the longest first. */
  private readonly idle = new Set<string>();
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
    if (this.seats.size >= this.most) {
      const [longest] = this.idle;
      if (longest === undefined) {
        socket.destroy();
        return;
      }
      this.seats.get(longest)?.socket.destroy();
      this.leave(longest);
    }
    this.seats.set(name, { socket, asked: 0 });
    this.idle.add(name);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      if (this.seats.get(name)?.socket === socket) this.leave(name);
    });
  }

  private leave(name: string): void {
    this.seats.delete(name);
    this.idle.delete(name);
  }

  /** Something is asked on a connection, until it is answered. */
  busy({ socket }: IncomingMessage, response: ServerResponse): void {
    const name = nameOf(socket);
    // Under TLS the socket of a request is not the one that was accepted.
    const seat = this.seats.get(name);
    if (seat === undefined) return;
    seat.asked++;
    this.idle.delete(name);
    response.on('close', () => {
      seat.asked--;
      if (seat.asked === 0 && !seat.socket.destroyed) this.idle.add(name);
    });
  }
}

/** The same for a socket and for TLS on top of it. */
const nameOf = (socket: Socket): string => `${socket.remoteAddress} ${socket.remotePort}`;
