import { randomUUID } from 'node:crypto';
import type { Log } from '../drivers/driver.ts';
import { acceptValue } from '../model/accept.ts';
import { DAY } from '../model/duration.ts';
import { wordsOf } from '../model/errors.ts';
import type { Point } from '../model/point.ts';
import { sameValue, showValue, toJson, type Value } from '../model/value.ts';
import type { WriteReceipt, WriteStatus } from '../model/write.ts';
import { type Aftermath, matches } from './aftermath.ts';
import type { AuditRecord, SealedRecord } from './audit/chain.ts';
import type { Ending } from './ending.ts';
import type { Field } from './field.ts';

/** Pause before a release or a safe value is tried again. */
const AGAIN = 500;
/** How long the end of the bridge waits for contacts to be let go of. */
const STOP_WITHIN = 1500;
/** A pulse that has longer to go is let go of before its time. */
const LET_GO_WITHIN = 2000;
/** A counter that every PLC holds in a word. */
const HEARTBEAT_MODULUS = 32_768;

/** What an earlier run has left: contacts that it may have left closed, and leases that run. */
export interface Left {
  readonly pulses: readonly { readonly point: Point; readonly auditId: string }[];
  readonly leases: readonly { readonly point: Point; readonly due: number }[];
}

/** What the bridge writes by itself, because of a write that was allowed: the end of a pulse, the end of a lease, a sign of life. */
export class Duties {
  private readonly field: Field;
  private readonly aftermath: Aftermath;
  private readonly record: (record: AuditRecord) => Promise<void>;
  private readonly log: Log;
  private heartbeat: { readonly point: string; readonly interval: number } | undefined;
  private readonly leases = new Map<string, { readonly timer: NodeJS.Timeout; readonly until: number }>();
  private readonly releasing = new Map<Promise<unknown>, Point>();
  private beat: NodeJS.Timeout | undefined;
  private isStopped = false;
  private isOver = false;
  private hurry: () => void = () => undefined;
  private readonly hurried = new Promise<void>(resolve => {
    this.hurry = resolve;
  });

  constructor(
    field: Field,
    aftermath: Aftermath,
    record: (record: AuditRecord) => Promise<void>,
    log: Log,
    heartbeat: { readonly point: string; readonly interval: number } | undefined,
  ) {
    this.field = field;
    this.aftermath = aftermath;
    this.record = record;
    this.log = log;
    this.heartbeat = heartbeat;
  }

  /** Leases that run: point and when its safe value will be written. */
  get running(): { readonly point: string; readonly safe_value_at: string }[] {
    return [...this.leases].map(([point, { until }]) => ({ point, safe_value_at: new Date(until).toISOString() }));
  }

  /** Points that the bridge owes a write: the end of a pulse, or the safe value of a lease. */
  get owed(): ReadonlySet<string> {
    return new Set([...this.leases.keys(), ...[...this.releasing.values()].map(({ name }) => name)]);
  }

  /** Reads what an earlier run has written, and has not finished. */
  async takeUp(records: AsyncIterable<SealedRecord>, note: (point: string, wall: number) => void): Promise<Left> {
    const pulses = new Map<string, Point>();
    const leases = new Map<string, { point: Point; due: number }>();
    for await (const record of records) {
      const point = this.field.plant.points.get(String(record.point));
      if (point?.write === undefined) continue;
      const [id, at] = [String(record.audit_id), Date.parse(record.time)];
      const isRelease = record.release === true || record.lease_end === true;
      if (record.kind === 'intent' && !isRelease && point.write.maxPerDay !== undefined && Date.now() - at < DAY) note(point.name, at);
      if (record.kind === 'intent' && record.pulse !== undefined) pulses.set(id, point);
      if (record.kind === 'outcome') pulses.delete(id);
      if (record.kind !== 'intent' || point.write.lease === undefined) continue;
      if (record.lease_end === true || sameJson(record.requested, point.write.lease.safe)) leases.delete(point.name);
      else leases.set(point.name, { point, due: at + point.write.lease.ttl });
    }
    return { pulses: [...pulses].map(([auditId, point]) => ({ auditId, point })), leases: [...leases.values()] };
  }

  start({ pulses, leases }: Left): void {
    for (const { point, auditId } of pulses) this.keep(point, this.recover(point, auditId));
    for (const { point, due } of leases) this.arm(point, Math.max(0, due - Date.now()));
    this.beatFor(this.heartbeat);
  }

  /** A sign of life from now on; undefined: none. */
  beatFor(heartbeat: { readonly point: string; readonly interval: number } | undefined): void {
    const isSame = this.beat !== undefined && sameJson(this.heartbeat, heartbeat);
    this.heartbeat = heartbeat;
    if (isSame) return;
    clearInterval(this.beat);
    this.beat = undefined;
    if (heartbeat !== undefined && !this.isStopped) this.startHeartbeat(heartbeat);
  }

  /** A write has ended: whoever may have moved a point with a lease has to renew it. */
  written(point: Point, wanted: Value, status: WriteStatus): void {
    const lease = point.write?.lease;
    if (lease === undefined || this.isStopped) return;
    const isSafe = sameValue(acceptValue(point, lease.safe), wanted);
    if (status === 'written' || status === 'unverified' || status === 'unknown') {
      if (isSafe) this.disarm(point);
      else this.arm(point, lease.ttl);
    } else if (status === 'unchanged' && !isSafe && this.leases.has(point.name)) this.arm(point, lease.ttl);
  }

  /** Waits for the length of a pulse and lets go, however often it takes. */
  async release(point: Point, auditId: string, receipt: WriteReceipt): Promise<Ending> {
    const pulse = point.write?.pulse;
    const began = performance.now();
    const shown = await this.aftermath.readQuietly(point);
    const wasOn = shown !== undefined && matches(shown, true);
    const left = Math.max(0, (pulse?.ms ?? 0) - (performance.now() - began));
    // A long one is cut short by the end of the bridge.
    const over = Promise.race([new Promise<void>(resolve => setTimeout(resolve, left)), this.hurried]);
    const work = over.then(() => this.letGo(point, auditId));
    this.keep(point, work);
    const isOff = await work;
    const seen = wasOn ? 'it was seen on' : 'it was not seen on';
    return {
      status: receipt.mismatch === undefined && isOff && wasOn ? 'written' : 'unverified',
      wire: receipt.wire,
      ...(isOff && { after: false }),
      reason: `a pulse of ${pulse?.ms ?? 0} ms: ${seen}, and ${isOff ? 'is off again' : 'whether it is off again is not known'}`,
    };
  }

  /** The bridge will end: what takes longer than this is cut short, and nothing is begun. */
  prepareToStop(): void {
    this.isStopped = true;
    setTimeout(this.hurry, LET_GO_WITHIN).unref();
    clearInterval(this.beat);
    for (const { timer } of this.leases.values()) clearTimeout(timer);
  }

  /** Finishes what must not be left as it is. */
  async stop(): Promise<void> {
    const patience = new Promise(resolve => setTimeout(resolve, STOP_WITHIN).unref());
    await Promise.race([Promise.all(this.releasing.keys()), patience]);
    this.isOver = true;
  }

  private keep(point: Point, work: Promise<unknown>): void {
    const kept = work
      .catch(error => this.log.warn({ err: error }, 'a duty of the bridge failed'))
      .finally(() => this.releasing.delete(kept));
    this.releasing.set(kept, point);
  }

  /** @returns whether the point was seen off */
  private async letGo(point: Point, auditId: string): Promise<boolean> {
    await this.insist(point, false, { audit_id: auditId, release: true, why: 'the end of a pulse' });
    const shown = await this.aftermath.readQuietly(point);
    return shown !== undefined && matches(shown, false);
  }

  /** Writes until the device has taken it. It is recorded before; a full disk does not keep a contact closed. */
  private async insist(point: Point, value: Value, facts: { readonly audit_id: string; readonly [fact: string]: unknown }): Promise<void> {
    let isRecorded = false;
    const approve = async (_present: unknown, wire: readonly string[]): Promise<boolean> => {
      if (!isRecorded)
        await this.record({ kind: 'intent', point: point.name, requested: toJson(value), principal: 'bridge', ...facts, wire }).catch(
          error => this.log.warn({ point: point.name }, `${wordsOf(error)}; it is written nevertheless`),
        );
      isRecorded = true;
      return true;
    };
    for (;;) {
      try {
        await this.field.driverOf(point).write(point, value, { approve }, new AbortController().signal);
        return;
      } catch (error) {
        const why = wordsOf(error);
        if (this.isOver) throw error;
        this.log.warn({ point: point.name }, `${point.name} could not be set to ${showValue(value)}: ${why}; it is tried again`);
        await new Promise(resolve => setTimeout(resolve, AGAIN));
      }
    }
  }

  /** A contact that a killed run may have left closed. */
  private async recover(point: Point, auditId: string): Promise<void> {
    let shown = await this.aftermath.readQuietly(point);
    while (shown?.quality !== 'good' && !this.isStopped) {
      await new Promise(resolve => setTimeout(resolve, AGAIN));
      shown = await this.aftermath.readQuietly(point);
    }
    if (shown?.quality !== 'good') return;
    const isOn = matches(shown, true);
    const isReleased = isOn && point.write?.pulse?.onRestart === 'release';
    this.log.warn(
      { point: point.name, audit_id: auditId },
      `an earlier run was ended during a pulse of ${point.name}: it is ${isOn ? 'on' : 'off'}${isReleased ? ', and is let go of' : ''}`,
    );
    const isOff = isReleased ? await this.letGo(point, auditId) : !isOn;
    await this.record({
      kind: 'outcome',
      audit_id: auditId,
      point: point.name,
      status: 'unknown',
      reason: `an earlier run was ended during the pulse; found ${isOn ? 'on' : 'off'}, now ${isOff ? 'off' : 'on'}`,
    });
  }

  private disarm(point: Point): void {
    clearTimeout(this.leases.get(point.name)?.timer);
    this.leases.delete(point.name);
  }

  private arm(point: Point, within: number): void {
    this.disarm(point);
    const timer = setTimeout(() => {
      this.leases.delete(point.name);
      this.keep(point, this.endLease(point));
    }, within);
    this.leases.set(point.name, { timer, until: Date.now() + within });
  }

  private async endLease(point: Point): Promise<void> {
    const safe = acceptValue(point, point.write?.lease?.safe);
    const unit = point.unit === undefined ? '' : ` ${point.unit}`;
    this.log.warn({ point: point.name }, `the write of ${point.name} was not renewed: its safe value ${showValue(safe)}${unit} is written`);
    const auditId = randomUUID();
    await this.insist(point, safe, { audit_id: auditId, lease_end: true, why: 'the write was not renewed' });
    const shown = await this.aftermath.readQuietly(point);
    const isThere = shown !== undefined && matches(shown, safe);
    await this.record({
      kind: 'outcome',
      audit_id: auditId,
      point: point.name,
      requested: toJson(safe),
      lease_end: true,
      status: isThere ? 'written' : 'unverified',
    });
  }

  /** A heartbeat is no news and is not recorded each time; that it stops is what the PLC looks for. */
  private startHeartbeat({ point: name, interval }: { readonly point: string; readonly interval: number }): void {
    let count = 0;
    let isBusy = false;
    let wasTold = false;
    const tick = async (): Promise<void> => {
      const point = this.field.plant.points.get(name);
      if (point === undefined) return;
      count = (count + 1) % HEARTBEAT_MODULUS;
      const value = point.value.kind === 'bool' ? count % 2 === 1 : count;
      try {
        await this.field.driverOf(point).write(point, value, { approve: () => Promise.resolve(true) }, AbortSignal.timeout(interval * 2));
        wasTold = false;
      } catch (error) {
        if (!wasTold) this.log.warn({ point: name }, `the heartbeat does not reach ${name}: ${wordsOf(error)}`);
        wasTold = true;
      }
    };
    this.beat = setInterval(() => {
      if (isBusy) return;
      isBusy = true;
      void tick().finally(() => {
        isBusy = false;
      });
    }, interval);
  }
}

const sameJson = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
