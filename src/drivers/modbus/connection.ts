import type { Durations } from '../../model/durations.ts';
import { ProtocolError, TransportError } from '../../model/errors.ts';
import type { ConnectionStatus, Log } from '../driver.ts';
import { Bus } from './bus.ts';
import { type ClientStatistics, ModbusClient, noStatistics } from './client.ts';
import type { CostModel } from './planner.ts';
import type { ModbusPort } from './port.ts';

export interface ConnectionSettings {
  readonly name: string;
  readonly type: string;
  readonly peer: string;
  newPort(): ModbusPort;
  /** What a request costs on this wire. */
  readonly cost: CostModel;
  readonly timeout: number;
  readonly maxInFlight: number;
  readonly requestDelay: number;
  readonly connectDelay: number;
  /** Milliseconds; undefined: never. */
  readonly idleClose: number | undefined;
  readonly reconnect: { readonly initial: number; readonly max: number };
}

export interface ConnectionListener {
  /** @param ours the bridge itself dropped the silent connection that this one replaces */
  connected(ours: boolean): void;
  lost(error: Error): void;
}

/** Requests in a row without any reply from which the connection counts as half-open and is made anew. */
const SILENT_REQUESTS = 2;
const RATE_WINDOW = 10_000;

/** One socket that is kept open: connects, connects again with growing pauses, and never opens a second one. */
export class ModbusConnection {
  readonly bus: Bus;
  private readonly settings: ConnectionSettings;
  private readonly log: Log;
  private readonly listeners = new Set<ConnectionListener>();
  private readonly statistics: ClientStatistics = noStatistics();
  private readonly wire;
  private client: ModbusClient | undefined;
  private opening: Promise<ModbusClient> | undefined;
  private retryTimer: NodeJS.Timeout | undefined;
  private idleTimer: NodeJS.Timeout | undefined;
  private state: ConnectionStatus['state'] = 'connecting';
  private since = Date.now();
  private lastError: string | undefined;
  private attempt = 0;
  private silent = 0;
  private units = 1;
  private readonly silentUnits = new Set<number>();
  private resetByUs = false;
  private connects = 0;
  private rate = { at: performance.now(), requests: 0, perSecond: 0 };

  constructor(settings: ConnectionSettings, log: Log) {
    this.settings = settings;
    this.log = log;
    this.bus = new Bus(settings.maxInFlight, () => this.acquire());
    this.wire = { peer: settings.peer, newPort: settings.newPort, timeout: settings.timeout, requestDelay: settings.requestDelay };
  }

  /** Whoever comes to a connection that is there, or is lost, hears of it at once. @returns how to stop hearing */
  listen(listener: ConnectionListener): () => void {
    this.listeners.add(listener);
    if (this.state === 'connected' || this.state === 'idle') listener.connected(false);
    else if (this.state === 'disconnected') listener.lost(new Error(this.lastError ?? `no connection to ${this.settings.peer}`));
    return () => this.listeners.delete(listener);
  }

  /** How many units are behind it now. */
  serve(units: number): void {
    this.units = units;
  }

  /** Milliseconds that one request may take, also where a connection has to be made for it. */
  get patience(): number {
    const { timeout, connectDelay, requestDelay } = this.settings;
    return 2 * timeout + connectDelay + requestDelay;
  }

  /** How long answers took. */
  get roundTrips(): Durations {
    return this.statistics.roundTrips;
  }

  start(): void {
    this.tryAgain();
  }

  get isLost(): boolean {
    return this.state === 'disconnected';
  }

  get cost(): CostModel {
    return this.settings.cost;
  }

  /** A reply came: the connection is alive. */
  noteReply(): void {
    this.silent = 0;
    this.silentUnits.clear();
    this.attempt = 0;
  }

  /**
   * No reply came. A connection that has gone silent is dropped, since it may be half-open; where several units are
   * behind it, one that is silent alone is that unit's own trouble.
   */
  noteTimeout(client: ModbusClient, unit: number): void {
    this.silent++;
    this.silentUnits.add(unit);
    const isAlone = this.silentUnits.size < 2 && this.units > 1;
    if (this.silent >= SILENT_REQUESTS && !isAlone && client === this.client) this.reset(client);
  }

  /** Drops the connection, so that nothing that was sent can still arrive, and makes a new one. */
  reset(client: ModbusClient): void {
    if (client !== this.client) return;
    this.resetByUs = client.reset();
  }

  status(): ConnectionStatus {
    const { statistics, settings } = this;
    this.measureRate();
    return {
      name: settings.name,
      type: settings.type,
      state: this.state,
      since: new Date(this.since).toISOString(),
      ...(this.lastError !== undefined && { last_error: this.lastError }),
      requests: statistics.requests,
      requests_per_second: this.rate.perSecond,
      ...(statistics.roundTrip !== undefined && { round_trip_ms: Number(statistics.roundTrip.toFixed(2)) }),
      timeouts: statistics.timeouts,
      exceptions: statistics.exceptions,
      protocol_errors: statistics.protocolErrors,
      discarded_replies: statistics.discardedReplies,
      lost_requests: statistics.lost,
      connects: this.connects,
      queued: this.bus.queued,
    };
  }

  /** Takes no more requests, lets those on the wire end, and closes. */
  async stop(): Promise<void> {
    this.bus.stop();
    clearTimeout(this.retryTimer);
    await this.bus.idle();
    clearTimeout(this.idleTimer);
    this.enter('stopped');
    this.client?.close();
    this.client = undefined;
  }

  private measureRate(): void {
    const now = performance.now();
    const elapsed = now - this.rate.at;
    if (elapsed < 1000) return;
    const perSecond = ((this.statistics.requests - this.rate.requests) * 1000) / elapsed;
    this.rate.perSecond = Number(perSecond.toFixed(1));
    if (elapsed > RATE_WINDOW) this.rate = { at: now, requests: this.statistics.requests, perSecond: this.rate.perSecond };
  }

  private async acquire(): Promise<ModbusClient> {
    const client = this.client ?? (await this.openIfIdle());
    this.armIdleClose();
    return client;
  }

  private armIdleClose(): void {
    clearTimeout(this.idleTimer);
    if (this.settings.idleClose !== undefined) this.idleTimer = setTimeout(() => this.closeIdle(), this.settings.idleClose);
  }

  private async openIfIdle(): Promise<ModbusClient> {
    if (this.state === 'idle' || this.state === 'connecting') return await this.open();
    throw new TransportError('no_connection', this.lastError ?? `no connection to ${this.settings.peer}`);
  }

  private closeIdle(): void {
    if (this.client === undefined) return;
    if (this.bus.isBusy) {
      this.armIdleClose();
      return;
    }
    const client = this.client;
    this.client = undefined;
    this.enter('idle');
    client.close();
  }

  /** At most one attempt at a time, whoever asks. */
  private open(): Promise<ModbusClient> {
    this.opening ??= this.connectOnce().finally(() => {
      this.opening = undefined;
    });
    return this.opening;
  }

  private async connectOnce(): Promise<ModbusClient> {
    if (this.state !== 'disconnected') this.enter('connecting');
    try {
      const client: ModbusClient = await ModbusClient.connect(this.wire, this.statistics, error => this.onDown(client, error));
      if (this.state === 'stopped') {
        client.close();
        throw new TransportError('no_connection', 'the bridge is stopping');
      }
      if (this.settings.connectDelay > 0) await new Promise(resolve => setTimeout(resolve, this.settings.connectDelay));
      if (!client.isOpen) throw new TransportError('no_connection', `${this.settings.peer}: the peer closed the connection at once`);
      this.connects++;
      this.client = client;
      this.silent = 0;
      this.silentUnits.clear();
      this.enter('connected');
      this.log.info({}, `connected to ${this.settings.peer}`);
      const ours = this.resetByUs;
      this.resetByUs = false;
      for (const listener of this.listeners) listener.connected(ours);
      return client;
    } catch (error) {
      this.onFailure(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
  }

  private onDown(client: ModbusClient, error: Error): void {
    if (client !== this.client) return;
    this.client = undefined;
    if (this.state === 'stopped') return;
    if (error instanceof ProtocolError) this.statistics.protocolErrors++;
    this.onFailure(error);
  }

  private onFailure(error: Error): void {
    if (this.state === 'stopped') return;
    const news = this.state !== 'disconnected' || this.lastError !== error.message;
    this.lastError = error.message;
    this.enter('disconnected');
    for (const listener of this.listeners) listener.lost(error);
    const { initial, max } = this.settings.reconnect;
    const pause = Math.min(max, initial * 2 ** this.attempt) * (0.75 + Math.random() * 0.25);
    this.attempt++;
    if (news) this.log.warn({ retry_ms: Math.round(pause) }, `connection lost: ${error.message}`);
    clearTimeout(this.retryTimer);
    this.retryTimer = setTimeout(() => this.tryAgain(), pause);
  }

  private tryAgain(): void {
    // The failure was told to the listeners and has set the next attempt.
    this.open().catch(() => undefined);
  }

  private enter(state: ConnectionStatus['state']): void {
    if (this.state === state) return;
    this.state = state;
    this.since = Date.now();
  }
}
