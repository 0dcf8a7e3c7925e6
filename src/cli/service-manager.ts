import type { DgramSocket } from 'node-unix-socket';
import type { Log } from '../drivers/driver.ts';
import { wordsOf } from '../model/errors.ts';

/** How often the status text is told, where no watchdog asks for more. */
const STATUS_EVERY = 10_000;

/** What the manager is told of. */
export interface Service {
  /** One line with live figures. */
  status(): string;
  /** Milliseconds for which something hangs that should go on. */
  stalledFor(): number;
}

/**
 * Tells the service manager how the service is, in datagrams (sd_notify(3)). Where none has asked, it does nothing.
 * Signs of life are given only while the event loop turns, which the timer shows, and nothing that polls hangs.
 */
export class ServiceManager {
  private readonly send: (state: string) => void;
  private readonly service: Service;
  private readonly log: Log;
  /** Milliseconds within which a sign of life is due; undefined: none is. */
  private readonly watchdog: number | undefined;
  private ticker: NodeJS.Timeout | undefined;
  private isStalled = false;

  private constructor(send: (state: string) => void, service: Service, log: Log, env: NodeJS.ProcessEnv) {
    this.send = send;
    this.service = service;
    this.log = log;
    this.watchdog = watchdogOf(env);
  }

  static async find(service: Service, log: Log, env: NodeJS.ProcessEnv = process.env): Promise<ServiceManager> {
    const path = env.NOTIFY_SOCKET;
    const silent = new ServiceManager(() => undefined, service, log, {});
    if (path === undefined || path === '') return silent;
    try {
      const { DgramSocket: Socket } = await import('node-unix-socket');
      const socket: DgramSocket = new Socket();
      let isTold = false;
      const onSent = (error: Error | undefined): void => {
        if (error !== undefined && !isTold) log.warn({}, `the service manager can not be told: ${error.message}`);
        isTold = error !== undefined;
      };
      // An address that begins with @ is in the abstract namespace (unix(7)).
      const to = path.replace(/^@/, '\0');
      const send = (state: string): void => {
        const bytes = Buffer.from(state);
        socket.sendTo(bytes, 0, bytes.length, to, onSent);
      };
      return new ServiceManager(send, service, log, env);
    } catch (error) {
      log.warn({}, `the service manager waits to be told, and node-unix-socket, which does that, is not there: ${wordsOf(error)}`);
      return silent;
    }
  }

  /** The service serves, from the start or again after a reload. */
  ready(): void {
    this.send(`READY=1\nSTATUS=${this.service.status()}`);
    if (this.ticker !== undefined) return;
    const every = Math.min(STATUS_EVERY, (this.watchdog ?? Number.POSITIVE_INFINITY) / 3);
    this.ticker = setInterval(() => this.tick(), every);
    this.ticker.unref();
  }

  reloading(): void {
    const usec = process.hrtime.bigint() / 1000n;
    this.send(`RELOADING=1\nMONOTONIC_USEC=${usec}\nSTATUS=taking up the map`);
  }

  stopping(): void {
    clearInterval(this.ticker);
    this.send('STOPPING=1\nSTATUS=stopping');
  }

  private tick(): void {
    const stalled = this.service.stalledFor();
    const isAlive = this.watchdog === undefined || stalled < this.watchdog;
    if (!isAlive && !this.isStalled)
      this.log.warn({ ms: Math.round(stalled) }, 'polling hangs; the service manager gets no more signs of life');
    this.isStalled = !isAlive;
    this.send(`STATUS=${this.service.status()}${this.watchdog !== undefined && isAlive ? '\nWATCHDOG=1' : ''}`);
  }
}

/** sd_watchdog_enabled(3): milliseconds, where they are meant for this process. */
function watchdogOf({ WATCHDOG_USEC, WATCHDOG_PID }: NodeJS.ProcessEnv): number | undefined {
  const usec = Number(WATCHDOG_USEC);
  if (!(usec > 0) || (WATCHDOG_PID !== undefined && WATCHDOG_PID !== String(process.pid))) return undefined;
  return usec / 1000;
}
