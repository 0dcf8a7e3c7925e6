import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { endpointOf, type HttpSettings, type TlsSettings } from '../model/access.ts';
import { systemReason } from '../model/errors.ts';
import type { Principal } from '../model/write.ts';
import { buildApp, type Served } from './app.ts';
import { isKnown } from './auth.ts';
import { Seats } from './seats.ts';
import { CertificateWatch, tlsOptions } from './tls.ts';

const SERVER = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  keepAliveTimeout: 60_000,
  /** How often those that have been too slow are looked for. */
  connectionsCheckingInterval: 1000,
};
const HANDSHAKE_TIMEOUT = 10_000;
/** A client that takes nothing off its stream for this long is cut. */
const SLOW_READER = 10_000;

class ListenError extends Error {}

/** What is served on the listener, which knows the rest itself. */
export type Behind = Omit<Served, 'watch'>;

/** The HTTP listener: one port that stays open while what stands behind it is replaced. */
export class HttpListener {
  private readonly server: Server | TlsServer;
  private readonly behind: Served;
  private readonly responses = new Map<ServerResponse, number | undefined>();
  private readonly watcher: NodeJS.Timeout;
  private readonly seats: Seats;
  private settings: HttpSettings;
  private app: FastifyInstance | undefined;
  private certificates: CertificateWatch | undefined;

  constructor(settings: HttpSettings, behind: Behind) {
    this.settings = settings;
    this.behind = { ...behind, watch: response => this.watch(response) };
    this.seats = new Seats(settings.limits.connections);
    const handle: RequestListener = (request, response) => {
      this.seats.busy(request, response);
      this.app?.routing(request, response);
    };
    this.server =
      settings.tls === undefined
        ? createServer(SERVER, handle)
        : createTlsServer({ ...SERVER, ...tlsOptions(settings.tls), handshakeTimeout: HANDSHAKE_TIMEOUT }, handle);
    this.server.on('connection', socket => this.seats.take(socket));
    // Who sends no HTTP, or no TLS, hears nothing and is let go of.
    this.server.on('clientError', (_error, socket) => socket.destroy());
    this.watcher = setInterval(() => this.cutSlowReaders(), 1000);
    this.watcher.unref();
  }

  /** @returns the address of the MCP endpoint. @throws ListenError in words */
  async start(): Promise<string> {
    const { host, port } = this.settings;
    await this.use(this.settings);
    try {
      await new Promise<void>((resolve, reject) => {
        this.server.once('error', reject);
        this.server.listen({ host, port }, resolve);
      });
    } catch (error) {
      const inUse = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      throw new ListenError(
        `can not listen on ${host}:${port}: ${inUse ? 'the port is in use already; stop the other program or change http.listen' : systemReason(error)}`,
      );
    }
    // No file descriptor left for one more connection: it waits, and the listener stays.
    this.server.on('error', error => this.behind.log.warn({ err: error }, 'a connection could not be accepted'));
    return endpointOf({ ...this.settings, port: (this.server.address() as AddressInfo).port });
  }

  /**
   * From the next request on. Requests that are being served end as they began.
   *
   * @returns whether a caller who was known before is known still
   */
  async use(settings: HttpSettings): Promise<(principal: Principal) => boolean> {
    const app = await buildApp(settings, this.behind);
    const before = { app: this.app, settings: this.settings };
    this.settings = settings;
    this.app = app;
    this.seats.allow(settings.limits.connections);
    await before.app?.close();
    this.certificates?.stop();
    const { tls } = settings;
    if (tls !== undefined) {
      this.renew(tls);
      this.certificates = new CertificateWatch(tls, renewed => this.renew(renewed), this.behind.log);
    }
    return principal => isKnown(principal, settings, before.settings);
  }

  async stop(): Promise<void> {
    clearInterval(this.watcher);
    this.certificates?.stop();
    const closed = new Promise(resolve => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
    await this.app?.close();
  }

  private renew(tls: TlsSettings): void {
    if ('setSecureContext' in this.server) this.server.setSecureContext(tlsOptions(tls));
  }

  private watch(response: ServerResponse): void {
    this.responses.set(response, undefined);
    response.on('close', () => this.responses.delete(response));
  }

  private cutSlowReaders(): void {
    const now = performance.now();
    for (const [response, since] of this.responses) {
      if (!response.writableNeedDrain) this.responses.set(response, undefined);
      else if (since === undefined) this.responses.set(response, now);
      else if (now - since > SLOW_READER) response.destroy();
    }
  }
}
