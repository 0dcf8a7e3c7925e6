import { randomUUID } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import type { Config } from './config/config.ts';
import { AuditLog } from './control/audit/log.ts';
import { Control } from './control/control.ts';
import { ControlDoor } from './control/door.ts';
import { Field } from './control/field.ts';
import type { SafetySettings } from './control/gates.ts';
import { isUp, type Log } from './drivers/driver.ts';
import type { HttpListener } from './http/listener.ts';
import { Catalogue } from './mcp/catalogue.ts';
import type { McpHttp } from './mcp/http.ts';
import { findPoints, unknownText } from './mcp/lookup.ts';
import { Notices } from './mcp/notices.ts';
import { SealedStates } from './mcp/sealed-state.ts';
import { type BridgeIdentity, type BridgeStatus, bridgeStatus } from './mcp/status.ts';
import { serveOnStdio } from './mcp/stdio.ts';
import { Subscriptions } from './mcp/subscriptions.ts';
import { Tally } from './mcp/tally.ts';
import { Trace } from './mcp/trace.ts';
import { Counts } from './model/counts.ts';
import type { Point } from './model/point.ts';
import { ROLES } from './model/role.ts';
import type { Sample } from './model/sample.ts';
import type { WriteOutcome, WriteRequest } from './model/write.ts';
import { type Fate, ReloadError, takeOver } from './reload.ts';
import { History } from './store/history.ts';
import { LiveValues } from './store/live-values.ts';
import { Wires } from './wires.ts';

export interface BridgeOptions {
  readonly version: string;
  readonly readOnly: boolean;
  /** A command of its own beside a daemon: it publishes nothing, and takes nobody's place. */
  readonly visiting?: boolean;
  readonly log: BridgeLog;
  /** A file for every message of every client. */
  readonly trace?: string;
}

/** The log, whose level may change while the bridge runs. */
export interface BridgeLog extends Log {
  level: string;
  child(facts: object): Log;
}

/** How long a change of the map waits for writes that are on the wire. */
const SETTLE_WITHIN = 3000;

/** A running bridge: the drivers, what they found, and the doors for clients. */
export class Bridge {
  private config: Config;
  private readonly options: BridgeOptions;
  private readonly log: BridgeLog;
  private readonly wires: Wires;
  private readonly live: LiveValues;
  private readonly history: History;
  private readonly notices = new Notices();
  private readonly subscriptions: Subscriptions;
  private audit: AuditLog | undefined;
  private readonly control: Control;
  private readonly parts: {
    readonly catalogue: Catalogue;
    readonly field: Field;
    readonly log: Log;
    readonly notices: Notices;
    readonly states: SealedStates;
    readonly tally: Tally;
    readonly trace?: Trace;
  };
  private door: Promise<ControlDoor | undefined> | undefined;
  private http: { readonly listener: HttpListener; readonly mcp: McpHttp } | undefined;

  private constructor(config: Config, options: BridgeOptions, audit: AuditLog | undefined, trace: Trace | undefined) {
    const { log } = options;
    this.config = config;
    this.options = options;
    this.log = log;
    this.audit = audit;
    this.live = new LiveValues(config.plant);
    this.history = new History(config.history.keep, config.history.maxSamples);
    this.wires = new Wires({
      config: () => this.config,
      visiting: options.visiting === true,
      logOf: connection => this.tellingLog(connection),
      publishLogOf: publish => log.child({ publish }),
      newest: point => this.live.get(point),
      learn: (device, points) => this.learn(device, points),
    });
    const { drivers, publishers } = this.wires;
    const field = new Field(config.plant, this.live, drivers);
    const control = new Control(field, this.safetySettings, audit, log);
    this.control = control;
    this.subscriptions = new Subscriptions(field, this.live, config.bridge.notifyInterval);
    const sources = { field, control, publishers, history: this.history };
    this.parts = {
      catalogue: new Catalogue(this.identity, sources, randomUUID()),
      field,
      log,
      notices: this.notices,
      states: new SealedStates(config.safety.confirmTimeout),
      tally: new Tally(),
      ...(trace !== undefined && { trace }),
    };
  }

  /** @throws AuditError where writes are enabled and can not be recorded */
  static async create(config: Config, options: BridgeOptions): Promise<Bridge> {
    const audit = await openAudit(config, options);
    const trace = options.trace === undefined ? undefined : await Trace.open(options.trace);
    const bridge = new Bridge(config, options, audit, trace);
    await Promise.all([bridge.control.takeUp(), bridge.wires.open()]);
    return bridge;
  }

  /** Starts polling, and publishing. */
  start(): void {
    this.live.onChange(({ sample }) => {
      this.history.append(sample);
      for (const publisher of this.wires.publishers) publisher.changed(sample);
    });
    this.wires.start(samples => this.live.update(samples));
    if (this.audit === undefined) return;
    this.control.start();
    this.door = ControlDoor.open(this.config.safety.door, this.control, this.log);
  }

  /**
   * Takes up another map while everything runs: what is said in the same words goes on untouched.
   *
   * @throws ReloadError, AuditError: nothing was changed
   */
  async reload(next: Config): Promise<void> {
    const { config, fates: said, changed } = takeOver(this.config, next);
    const owed = [...changed].map(({ name }) => name).filter(name => this.control.duties.owed.has(name));
    if (owed.length > 0)
      throw new ReloadError(
        `${owed.join(', ')} can not change now: the bridge owes the end of a pulse or the safe value of a lease; try again when that is done`,
      );
    this.audit ??= await openAudit(config, this.options);
    const { wires } = this;
    const fates = wires.fatesOf(said);
    const of = (fate: Fate): string[] => [...fates].filter(([, one]) => one === fate).map(([name]) => name);
    const shown = this.parts.catalogue.shown();
    await this.control.settle(SETTLE_WITHIN);
    await wires.stop(of('replaced'));
    // From one map to the other without a moment between them: no call sees half of each.
    this.config = config;
    this.log.level = config.log.level;
    wires.remake(of('replaced'));
    for (const { name } of changed) this.history.forget(name);
    this.history.resize(config.history.keep, config.history.maxSamples);
    this.parts.field.become(config.plant, wires.drivers);
    this.parts.states.lifetime = config.safety.confirmTimeout;
    this.subscriptions.tellEvery(config.bridge.notifyInterval);
    await this.control.become(this.safetySettings, this.audit);
    const lists = this.parts.catalogue.become(this.identity, shown);
    await wires.exchange(of('changed'));
    await wires.restart(of('replaced'));
    if (this.audit !== undefined) this.door ??= ControlDoor.open(config.safety.door, this.control, this.log);
    if (this.http !== undefined) {
      const { listener, mcp } = this.http;
      const isKnown = await listener.use(config.http);
      mcp.allow(config.http.limits);
      mcp.revoke(isKnown);
    }
    for (const [list, roles] of lists) if (roles.size > 0) this.subscriptions.listChanged(list, roles);
    const count = (fate: Fate): string => `${of(fate).length} ${fate}`;
    this.log.info(
      { connections: Object.fromEntries(fates), points: changed.size },
      `the map was taken up: of the connections ${count('kept')}, ${count('changed')}, ${count('replaced')}`,
    );
  }

  /** Resolves when every device was asked a first time, or could not be, or when the time is up. */
  firstPolls(within: number): Promise<void> {
    return this.wires.firstPolls(within);
  }

  /** Milliseconds for which the polling of some device has hung. */
  stalledFor(now = performance.now()): number {
    return this.wires.stalledFor(now);
  }

  /** Every file that the map was read from. */
  get files(): readonly string[] {
    return this.config.files;
  }

  /** How the bridge is, in one line. */
  get statusLine(): string {
    const { bridge, connections } = this.status;
    const { sessions, streams } = this.clients;
    const away = connections.filter(one => !isUp(one)).map(({ name, state }) => `${name} ${state}`);
    const requests = connections.reduce((sum, one) => sum + one.requests_per_second, 0);
    const wires = away.length === 0 ? `${connections.length} connections up` : away.join(', ');
    return `${bridge.points.good} of ${bridge.points.total} points good; ${wires}; ${requests.toFixed(1)} requests/s; ${sessions} sessions, ${streams} streams; writes ${bridge.writes}`;
  }

  /** How the bridge is. */
  get status(): BridgeStatus {
    return bridgeStatus(this.identity, { field: this.parts.field, control: this.control, publishers: this.wires.publishers });
  }

  /** Opens the HTTP listener. @returns the address of the endpoint. @throws ListenError */
  async listen(): Promise<string> {
    // On stdio nobody waits for what only HTTP needs.
    const [{ HttpListener }, { Metrics }, { McpHttp }] = await Promise.all([
      import('./http/listener.ts'),
      import('./http/metrics.ts'),
      import('./mcp/http.ts'),
    ]);
    const mcp = new McpHttp(this.parts, this.subscriptions, this.config.http.limits);
    const answers = new Counts();
    const metrics = new Metrics({
      status: () => this.status,
      roundTrips: () =>
        [...this.wires.drivers].flatMap(([name, { roundTrips }]) => (roundTrips === undefined ? [] : [[name, roundTrips] as const])),
      clients: () => this.clients,
      ...this.parts.tally,
      writes: this.control.counts,
      answers,
    });
    const connections = () => [...this.wires.drivers.values()].map(driver => driver.connectionStatus());
    const behind = { mcp, keeper: this.control, connections, metrics, log: this.log, answers };
    const listener = new HttpListener(this.config.http, behind);
    this.http = { listener, mcp };
    const endpoint = await listener.start();
    this.log.info({ endpoint }, `serving MCP at ${endpoint}`);
    return endpoint;
  }

  /** Sessions and streams of clients over HTTP that are open now. */
  get clients(): { readonly sessions: number; readonly streams: number } {
    return this.http?.mcp.open ?? { sessions: 0, streams: 0 };
  }

  /** Serves one client on a pair of streams. @returns when it has ended */
  async serve(input: Readable, output: Writable): Promise<void> {
    await serveOnStdio(this.parts, this.subscriptions, { name: 'stdio', role: this.config.stdio.role }, { input, output }).ended;
  }

  /** Points by name or glob; what is unknown is said in words. */
  find(names: readonly string[]): { readonly points: readonly Point[]; readonly unknown: string } {
    const { points, unknown } = findPoints(this.config.plant, names);
    return { points, unknown: unknownText(unknown) };
  }

  /** Asks the devices now, whether or not polling was started. */
  readNow(points: readonly Point[]): Promise<Sample[]> {
    return this.parts.field.readNow(points, new AbortController().signal);
  }

  /** One write through the gates. */
  write(point: Point, value: unknown, request: Omit<WriteRequest, 'point' | 'value'>): Promise<WriteOutcome> {
    return this.control.submit({ ...request, point, value }, new AbortController().signal);
  }

  /** A connection's log, whose news clients may ask to hear too. */
  private tellingLog(connection: string): Log {
    const log = this.log.child({ connection });
    return {
      debug: (fields, message) => log.debug(fields, message),
      info: (fields, message) => {
        log.info(fields, message);
        this.notices.say({ level: 'info', logger: connection, text: message });
      },
      warn: (fields, message) => {
        log.warn(fields, message);
        this.notices.say({ level: 'warning', logger: connection, text: message });
      },
    };
  }

  private get identity(): BridgeIdentity {
    const { name, description } = this.config.bridge;
    return { name, version: this.options.version, ...(description !== undefined && { description }) };
  }

  private get safetySettings(): SafetySettings {
    return { ...this.config.safety, readOnly: this.options.readOnly };
  }

  private learn(device: string, points: readonly Point[]): void {
    this.config.plant.learn(device, points);
    for (const point of points) this.live.add(point);
    this.subscriptions.listChanged('resources', ROLES);
  }

  onChange(listener: (sample: Sample) => void): void {
    this.live.onChange(change => listener(change.sample));
  }

  /** Takes no more calls, finishes what is on the wire, and lets go of everything. */
  async stop(): Promise<void> {
    this.log.info({}, 'stopping');
    this.subscriptions.stop();
    await (await this.door)?.close();
    await this.control.stop();
    await this.wires.stop();
    await this.http?.mcp.close();
    await this.http?.listener.stop();
    this.live.stop();
    await this.audit?.close();
    await this.parts.trace?.close();
  }
}

/** @returns undefined where nothing can be written. @throws AuditError */
async function openAudit({ safety }: Config, { readOnly, log }: BridgeOptions): Promise<AuditLog | undefined> {
  return safety.writes === 'disabled' || readOnly ? undefined : await AuditLog.open(safety.audit, log.child({ audit: safety.audit.path }));
}
