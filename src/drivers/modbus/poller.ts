import { ExceptionResponse, ProtocolError, TransportError, wordsOf } from '../../model/errors.ts';
import { bad, type Reading, type Sample, sampleOf } from '../../model/sample.ts';
import type { DeviceStatus, Log } from '../driver.ts';
import type { Bus } from './bus.ts';
import type { ModbusConnection } from './connection.ts';
import type { ModbusPoint } from './point.ts';
import { concernsUnit, type DeviceReader } from './reader.ts';

const PROBE_FIRST = 500;
const PROBE_MAX = 30_000;
/** Timers fire up to a millisecond early. */
const TIMER_SLACK = 1;

/** The points of one poll interval and the monotonic time at which they are due. */
interface Group {
  readonly interval: number;
  readonly points: readonly ModbusPoint[];
  due: number;
}

/**
 * Polls one device. A cycle reads everything that is due; slots that were missed are counted and skipped, never piled
 * up. A device that does not answer is lost: all its points turn bad at once, and it is probed with one request at
 * growing intervals until it is back.
 */
export class DevicePoller {
  private readonly name: string;
  private readonly connectionName: string;
  private readonly points: readonly ModbusPoint[];
  private readonly reader: DeviceReader;
  private readonly log: Log;
  private readonly groups: Group[];
  private readonly offset: number;
  private readonly bus: Bus;
  private readonly patience: number;
  private readonly stopListening: () => void;
  /** When what it does now was begun; undefined: it sleeps. */
  private busySince: number | undefined;
  private readonly unions = new Map<string, readonly ModbusPoint[]>();
  private sink: (samples: readonly Sample[]) => void = () => undefined;
  private state: DeviceStatus['state'] = 'starting';
  private since = Date.now();
  private lastError: string | undefined;
  private cycles = 0;
  private lateCycles = 0;
  private cycleMs: number | undefined;
  private probeStep = 0;
  private probeAt = 0;
  private connected = false;
  private running = false;
  private wake: (() => void) | undefined;
  private loop: Promise<void> | undefined;
  private planned: { readonly at: number; readonly plan: DeviceStatus['plan'] } | undefined;

  /** @param offset milliseconds by which this device's cycles lie behind the others' */
  constructor(
    name: string,
    connection: ModbusConnection,
    connectionName: string,
    points: readonly ModbusPoint[],
    reader: DeviceReader,
    log: Log,
    offset: number,
  ) {
    this.name = name;
    this.connectionName = connectionName;
    this.points = points;
    this.reader = reader;
    this.log = log;
    this.offset = offset;
    const intervals = [...new Set(points.map(point => point.pollInterval))].sort((a, b) => a - b);
    this.groups = intervals.map(interval => ({ interval, points: points.filter(point => point.pollInterval === interval), due: 0 }));
    this.bus = connection.bus;
    this.patience = connection.patience;
    this.stopListening = connection.listen({ connected: ours => this.onConnected(ours), lost: error => this.onLost(error) });
  }

  start(sink: (samples: readonly Sample[]) => void): void {
    this.sink = sink;
    this.running = true;
    // A connection that is lost already was told of before anybody could hear what that makes of the points.
    if (this.state === 'lost') this.lose(bad('no_connection'), this.lastError ?? '', false);
    this.loop = this.run();
  }

  async stop(): Promise<void> {
    this.running = false;
    this.stopListening();
    this.wake?.();
    await this.loop;
  }

  status(): DeviceStatus {
    return {
      name: this.name,
      connection: this.connectionName,
      state: this.state,
      since: new Date(this.since).toISOString(),
      ...(this.lastError !== undefined && { last_error: this.lastError }),
      cycles: this.cycles,
      late_cycles: this.lateCycles,
      ...(this.cycleMs !== undefined && { cycle_ms: Number(this.cycleMs.toFixed(1)) }),
      plan: this.plan(),
    };
  }

  /** Milliseconds for which nothing has gone on that should: neither a request of its wire has ended, nor a cycle begun that is due. */
  stalledFor(now: number): number {
    if (!this.running) return 0;
    const since = this.busySince === undefined ? this.nextAt() : Math.max(this.busySince, this.bus.lastEnd) + this.patience;
    return Math.max(0, now - since);
  }

  /** Whether it has been read, or was found not to answer, for a first time. */
  get hasTried(): boolean {
    return this.state !== 'starting' || this.points.length === 0;
  }

  /** Somebody else got an answer of a lost device: it need not wait for its next probe. */
  noteAnswer(): void {
    if (this.state !== 'lost' || !this.connected) return;
    this.probeAt = 0;
    this.wake?.();
  }

  private plan(): DeviceStatus['plan'] {
    const now = performance.now();
    if (this.planned === undefined || now - this.planned.at > 5000) {
      const { requests, registers, unused } = this.reader.summary(this.points);
      const shortest = this.groups[0]?.interval ?? 1000;
      const load = this.cycleMs === undefined ? 0 : (100 * this.cycleMs) / shortest;
      this.planned = { at: now, plan: { requests, registers, unused_registers: unused, load_percent: Number(load.toFixed(1)) } };
    }
    return this.planned.plan;
  }

  private onConnected(ours: boolean): void {
    this.connected = true;
    // A silent device stays silent on a new connection: it keeps its turn among the probes.
    if (!ours) {
      this.probeAt = 0;
      this.probeStep = 0;
    }
    this.dueNow();
    this.wake?.();
  }

  private onLost(error: Error): void {
    const wasConnected = this.connected;
    this.connected = false;
    this.lose(bad('no_connection'), error.message, wasConnected);
  }

  private async run(): Promise<void> {
    while (this.running) {
      const wait = this.nextAt() - performance.now();
      if (wait > TIMER_SLACK) {
        await this.sleep(wait);
        continue;
      }
      this.busySince = performance.now();
      if (this.state === 'lost') await this.probe();
      else await this.cycle();
      this.busySince = undefined;
    }
  }

  private nextAt(): number {
    if (!this.connected || this.groups.length === 0) return Number.POSITIVE_INFINITY;
    return this.state === 'lost' ? this.probeAt : Math.min(...this.groups.map(group => group.due));
  }

  private dueNow(): void {
    const now = performance.now();
    for (const group of this.groups) group.due = now + Math.min(this.offset, group.interval / 2);
  }

  private async cycle(): Promise<void> {
    const now = performance.now();
    const due = this.groups.filter(group => group.due <= now + TIMER_SLACK);
    for (const group of due) {
      const missed = Math.max(0, Math.floor((now - group.due) / group.interval));
      this.lateCycles += missed;
      group.due += (missed + 1) * group.interval;
    }
    const started = performance.now();
    if (await this.readAll(this.pointsOf(due))) {
      this.cycles++;
      this.cycleMs = performance.now() - started;
    }
  }

  /** The same list for the same groups, so that its plan can be kept. */
  private pointsOf(due: readonly Group[]): readonly ModbusPoint[] {
    const key = due.map(group => group.interval).join();
    const points = this.unions.get(key) ?? due.flatMap(group => group.points);
    this.unions.set(key, points);
    return points;
  }

  private async probe(): Promise<void> {
    const pause = Math.min(PROBE_MAX, PROBE_FIRST * 2 ** this.probeStep) * (0.75 + Math.random() * 0.25);
    this.probeStep++;
    const first = this.points[0];
    // Asked before the pause is set, so that an answer from elsewhere meanwhile is not overruled.
    this.probeAt = performance.now() + pause;
    if (first === undefined) return;
    await this.readAll([first], 'probe');
    if (this.state === 'lost') this.probeAt = Math.max(this.probeAt, performance.now() + pause);
    else this.dueNow();
  }

  /** @returns whether the device answered */
  private async readAll(points: readonly ModbusPoint[], priority: 'poll' | 'probe' = 'poll'): Promise<boolean> {
    try {
      const samples = await this.reader.read(points, priority);
      if (!this.running) return false;
      this.found();
      this.sink(samples);
      return true;
    } catch (error) {
      if (this.running) this.onTrouble(error);
      return false;
    }
  }

  private onTrouble(error: unknown): void {
    if (error instanceof ExceptionResponse && concernsUnit(error))
      this.lose(bad('exception', { code: error.exception, name: error.exceptionName }), error.message, true);
    else if (error instanceof TransportError && error.kind === 'timeout') this.lose(bad('timeout'), error.message, true);
    else if (error instanceof ProtocolError && this.connected) this.lose(bad('timeout'), error.message, true);
    else this.lose(bad('no_connection'), wordsOf(error), true);
  }

  private found(): void {
    if (this.state === 'polling') return;
    if (this.state === 'lost') this.log.info({ device: this.name }, `${this.name} answers again`);
    this.enter('polling');
    this.lastError = undefined;
    this.probeStep = 0;
  }

  /** Every point of the device turns bad at once. */
  private lose(reading: Reading, message: string, news: boolean): void {
    this.lastError = message;
    if (news && this.state !== 'lost') {
      this.log.warn({ device: this.name }, `${this.name} does not answer: ${message}`);
      this.probeAt = performance.now() + PROBE_FIRST;
    }
    this.enter('lost');
    const at = performance.now();
    const wall = Date.now();
    this.sink(this.points.map(point => sampleOf(point, reading, at, wall)));
  }

  private enter(state: DeviceStatus['state']): void {
    if (this.state === state) return;
    this.state = state;
    this.since = Date.now();
  }

  private sleep(ms: number): Promise<void> {
    return new Promise(resolve => {
      const timer = Number.isFinite(ms) ? setTimeout(() => this.wake?.(), ms) : undefined;
      this.wake = () => {
        clearTimeout(timer);
        this.wake = undefined;
        resolve();
      };
    });
  }
}
