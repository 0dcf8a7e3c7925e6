import { createServer, type Server, type Socket } from 'node:net';

/** A listener on this machine that can be stopped, with all its connections, and started again. */
export abstract class TcpListener {
  connections = 0;
  protected readonly sockets = new Set<Socket>();
  private server: Server | undefined;

  get port(): number {
    const address = this.server?.address();
    if (typeof address !== 'object' || address === null) throw new Error('it does not listen');
    return address.port;
  }

  get openConnections(): number {
    return this.sockets.size;
  }

  /** @param port 0: any free one */
  async start(port = 0): Promise<this> {
    const server = createServer(socket => {
      this.connections++;
      this.track(socket);
      this.serve(socket);
    });
    this.server = server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', resolve);
    });
    return this;
  }

  async stop(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    for (const socket of this.sockets) socket.destroy();
    if (server !== undefined) await new Promise(resolve => server.close(resolve));
  }

  protected track(socket: Socket): void {
    this.sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.sockets.delete(socket));
  }

  protected abstract serve(socket: Socket): void;
}
