import { randomUUID } from 'node:crypto';
import { NoReply } from '../drivers/driver.ts';
import { showDuration } from '../model/duration.ts';
import { ExceptionResponse, ProtocolError, RefusedByDevice, TransportError } from '../model/errors.ts';
import type { Point } from '../model/point.ts';
import { present as presentSample, type Sample } from '../model/sample.ts';
import { type JsonValue, sameValue, showValue, toJson, type Value } from '../model/value.ts';
import { Refusal, type WriteOutcome, type WriteReceipt, type WriteRequest } from '../model/write.ts';
import type { AuditRecord } from './audit/chain.ts';
import { AuditError } from './audit/files.ts';
import type { AuditLog } from './audit/log.ts';
import type { Field } from './field.ts';
import { checkPresent, checkRate, checkRole, checkSwitches, checkValue, oppositeOf, type SafetySettings } from './gates.ts';
import { WriteRate } from './rate.ts';

/** Outcomes that are remembered for repeated request ids. */
const MAX_REMEMBERED = 1000;
/** Pauses between readings back, while the device settles. */
const VERIFY_PAUSES = [0, 50, 100, 200, 400];

/** How far a write has come; what is known of it goes into its outcome. */
interface Progress {
  readonly auditId: string;
  wanted: Value | undefined;
  before: Sample | undefined;
  wire: readonly string[];
  intended: boolean;
  unchanged: boolean;
}

type Ending = Pick<WriteOutcome, 'status'> & Partial<Pick<WriteOutcome, 'after' | 'rule' | 'reason' | 'live' | 'wire'>>;

/**
 * The one way down to the wire. Gates, then the slot on the bus with a fresh reading of the point, the gates that look
 * at it, the intent on the disk, the request, and the reading back.
 */
export class Control {
  private readonly field: Field;
  private readonly settings: SafetySettings;
  private readonly audit: AuditLog | undefined;
  private readonly rate: WriteRate;
  private readonly lastOfPoint = new Map<string, Promise<unknown>>();
  private readonly remembered = new Map<string, { readonly asked: string; readonly outcome: Promise<WriteOutcome> }>();
  private auditFailure: string | undefined;

  /** @param audit undefined where nothing can ever be written */
  constructor(field: Field, settings: SafetySettings, audit: AuditLog | undefined) {
    this.field = field;
    this.settings = settings;
    this.audit = audit;
    this.rate = new WriteRate(settings.maxWritesPerMinute);
  }

  /** Whether writes are switched on at all: what clients are shown depends on it. */
  get enabled(): boolean {
    return this.settings.writes && !this.settings.readOnly;
  }

  /** Why nothing can be written although writes are enabled: the audit file fails. */
  get trouble(): string | undefined {
    return this.auditFailure;
  }

  /** Every way to end is an outcome; nothing is thrown for what a device or a rule says. */
  submit(request: WriteRequest, signal: AbortSignal): Promise<WriteOutcome> {
    if (request.requestId === undefined) return this.execute(request, signal);
    const key = JSON.stringify([request.principal.name, request.requestId]);
    const asked = JSON.stringify([request.point.name, request.toggle ?? request.value], (_, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
    const known = this.remembered.get(key);
    if (known !== undefined) {
      if (known.asked === asked) return known.outcome;
      return this.turnAway(request, new Refusal('request_id', 'this request_id was used for another write before; choose a new one'));
    }
    const outcome = this.execute(request, signal);
    this.remembered.set(key, { asked, outcome });
    const [oldest] = this.remembered.keys();
    if (this.remembered.size > MAX_REMEMBERED && oldest !== undefined) this.remembered.delete(oldest);
    return outcome;
  }

  private turnAway(request: WriteRequest, refusal: Refusal): Promise<WriteOutcome> {
    return this.finish(
      request,
      { auditId: randomUUID(), wanted: undefined, before: undefined, wire: [], intended: false, unchanged: false },
      refused(refusal),
    );
  }

  private async execute(request: WriteRequest, signal: AbortSignal): Promise<WriteOutcome> {
    const progress: Progress = { auditId: randomUUID(), wanted: undefined, before: undefined, wire: [], intended: false, unchanged: false };
    try {
      checkSwitches(this.settings);
      checkRole(request);
      if (request.toggle === undefined) progress.wanted = checkValue(request);
    } catch (error) {
      return await this.finish(request, progress, endingOf(error));
    }
    return await this.inTurn(
      request.point,
      async () => await this.finish(request, progress, await this.carryOut(request, progress, signal)),
    );
  }

  /** Writes of one point go one after the other, so that the second sees what the first did. */
  private async inTurn<T>(point: Point, task: () => Promise<T>): Promise<T> {
    const before = this.lastOfPoint.get(point.name) ?? Promise.resolve();
    const mine = before.then(task, task);
    const settled = mine.catch(() => undefined);
    this.lastOfPoint.set(point.name, settled);
    try {
      return await mine;
    } finally {
      if (this.lastOfPoint.get(point.name) === settled) this.lastOfPoint.delete(point.name);
    }
  }

  private async carryOut(request: WriteRequest, progress: Progress, signal: AbortSignal): Promise<Ending> {
    const { point } = request;
    const driver = this.field.driverOf(point);
    try {
      if (request.toggle === true) {
        const [sample] = await this.field.readNow([point], signal);
        if (sample !== undefined) progress.before = sample;
        if (sample !== undefined) progress.wanted = oppositeOf(sample);
      }
      const wanted = progress.wanted ?? null;
      const receipt = await driver.write(
        point,
        wanted,
        { approve: (present, wire) => this.approve(request, progress, present, wire) },
        signal,
      );
      if (progress.before !== undefined) this.field.live.update([progress.before]);
      if (receipt !== undefined) return await this.verify(point, wanted, receipt);
      if (progress.unchanged) return { status: 'unchanged', after: toJson(wanted) };
      return { status: 'simulated', wire: progress.wire, reason: 'dry run: every rule was passed and nothing was sent' };
    } catch (error) {
      if (error instanceof NoReply) return await this.afterSilence(point, error);
      return endingOf(error);
    }
  }

  /** The gates once more inside the slot, on a fresh reading, and the intent on the disk. */
  private async approve(request: WriteRequest, progress: Progress, present: Sample, wire: readonly string[]): Promise<boolean> {
    const wanted = progress.wanted ?? null;
    progress.before = present;
    progress.wire = wire;
    checkSwitches(this.settings);
    if (request.toggle === true && present.quality !== 'bad' && sameValue(oppositeOf(present), wanted) === false) {
      throw new Refusal(
        'present_value',
        `${request.point.name} changed by itself while it was being toggled; say which state it should have`,
        [present],
      );
    }
    checkPresent(request, wanted, present);
    progress.unchanged = matches(present, wanted);
    if (progress.unchanged) return false;
    checkRate(request, this.rate, performance.now());
    if (request.dryRun === true) return false;
    await this.record({ ...this.facts(request, progress), kind: 'intent', audit_id: progress.auditId, wire });
    progress.intended = true;
    this.rate.note(request.point.name);
    return true;
  }

  private async verify(point: Point, wanted: Value, receipt: WriteReceipt): Promise<Ending> {
    const within = point.write?.verify;
    const { wire } = receipt;
    if (within === undefined) {
      return {
        status: 'unverified',
        wire,
        reason: receipt.mismatch ?? 'the device acknowledged the write; reading back is switched off for this point',
      };
    }
    const after = await this.readBack(point, wanted, within);
    if (receipt.mismatch !== undefined)
      return { status: 'unverified', wire, ...afterOf(after), reason: `${receipt.mismatch}; the reading back shows ${describe(after)}` };
    if (after !== undefined && matches(after, wanted)) return { status: 'written', wire, ...afterOf(after) };
    return {
      status: 'unverified',
      wire,
      ...afterOf(after),
      reason: `the device acknowledged the write, but after ${showDuration(within)} the reading back shows ${describe(after)}`,
    };
  }

  /** Reads until the value is there or the time is up. */
  private async readBack(point: Point, wanted: Value, within: number): Promise<Sample | undefined> {
    const deadline = performance.now() + within;
    let last: Sample | undefined;
    for (let i = 0; ; i++) {
      const pause = VERIFY_PAUSES[Math.min(i, VERIFY_PAUSES.length - 1)] ?? 0;
      if (i > 0 && performance.now() + pause > deadline) return last;
      if (pause > 0) await new Promise(resolve => setTimeout(resolve, pause));
      last = await this.readQuietly(point);
      if (last !== undefined && matches(last, wanted)) return last;
    }
  }

  /** No reply: nothing is repeated, and what the device now shows is told. */
  private async afterSilence(point: Point, error: NoReply): Promise<Ending> {
    const deadline = performance.now() + (point.write?.verify ?? 2000);
    let after: Sample | undefined;
    do {
      // The connection is being made anew.
      await new Promise(resolve => setTimeout(resolve, 200));
      after = await this.readQuietly(point);
    } while (after?.quality === 'bad' && performance.now() < deadline);
    return {
      status: 'unknown',
      wire: error.wire,
      ...afterOf(after),
      reason: `${error.message}: the device may have acted, and the write is not repeated; the reading back shows ${describe(after)}`,
    };
  }

  private async readQuietly(point: Point): Promise<Sample | undefined> {
    const [sample] = await this.field.readNow([point], new AbortController().signal).catch(() => []);
    return sample;
  }

  private async finish(request: WriteRequest, progress: Progress, ending: Ending): Promise<WriteOutcome> {
    const outcome: WriteOutcome = {
      point: request.point.name,
      requested: progress.wanted === undefined ? asJson(request.value) : toJson(progress.wanted),
      before: progress.before === undefined ? null : toJson(progress.before.value),
      ...ending,
      audit_id: progress.auditId,
    };
    if (ending.status === 'simulated') return outcome;
    const kind = progress.intended ? 'outcome' : ending.status === 'refused' ? 'refusal' : 'outcome';
    try {
      await this.record({ ...this.facts(request, progress), kind, audit_id: progress.auditId, ...ending });
    } catch (error) {
      // What happened, happened: the answer tells it, and that it stands in no record.
      if (!(error instanceof AuditError)) throw error;
      return { ...outcome, reason: `${outcome.reason === undefined ? '' : `${outcome.reason}; `}${error.message}` };
    }
    return outcome;
  }

  private facts(
    { point, principal, reason, requestId, value, toggle, traceId }: WriteRequest,
    progress: Progress,
  ): Record<string, unknown> {
    return {
      point: point.name,
      requested: progress.wanted === undefined ? asJson(value) : toJson(progress.wanted),
      ...(toggle === true && { toggle }),
      before: progress.before === undefined ? null : toJson(progress.before.value),
      ...(point.unit !== undefined && { unit: point.unit }),
      ...(reason !== undefined && { why: reason }),
      principal: principal.name,
      role: principal.role,
      ...(principal.client !== undefined && { client: principal.client }),
      ...(traceId !== undefined && { trace_id: traceId }),
      ...(requestId !== undefined && { request_id: requestId }),
    };
  }

  private async record(record: AuditRecord): Promise<void> {
    if (this.audit === undefined) return;
    try {
      await this.audit.append(record);
      this.auditFailure = undefined;
    } catch (error) {
      if (error instanceof AuditError) this.auditFailure = error.message;
      throw error;
    }
  }
}

function refused(refusal: Refusal): Ending {
  return {
    status: 'refused',
    rule: refusal.rule,
    reason: refusal.message,
    ...(refusal.live.length > 0 && { live: refusal.live.map(sample => presentSample(sample)) }),
  };
}

/** What a failure before the request was sent means for the asker. */
function endingOf(error: unknown): Ending {
  if (error instanceof Refusal) return refused(error);
  if (error instanceof AuditError)
    return { status: 'refused', rule: 'audit', reason: `${error.message}; nothing is written that can not be recorded` };
  if (error instanceof ExceptionResponse || error instanceof RefusedByDevice) return { status: 'failed', reason: error.message };
  if (error instanceof TransportError && error.kind === 'cancelled')
    return { status: 'failed', reason: 'cancelled before anything was sent' };
  if (error instanceof TransportError || error instanceof ProtocolError)
    return { status: 'failed', reason: `nothing was sent: ${error.message}` };
  throw error;
}

/** A value that went through the device's own representation comes back the same; a scaled one within float noise. */
function matches(sample: Sample, wanted: Value): boolean {
  // What a point was an unknown time ago says nothing of what it is.
  if (sample.quality === 'bad' || sample.reason === 'stale') return false;
  if (sameValue(sample.value, wanted)) return true;
  const { value } = sample;
  if (typeof value !== 'number' || (typeof wanted !== 'number' && typeof wanted !== 'bigint')) return false;
  return sample.point.canonical === undefined && Math.abs(value - Number(wanted)) <= Math.abs(value) * 1e-6;
}

const afterOf = (sample: Sample | undefined): { after?: JsonValue } =>
  sample === undefined || sample.quality === 'bad' ? {} : { after: toJson(sample.value) };

function describe(sample: Sample | undefined): string {
  if (sample === undefined) return 'nothing';
  if (sample.quality === 'bad') return `no value (${sample.reason})`;
  return `${showValue(sample.value)}${sample.point.unit === undefined ? '' : ` ${sample.point.unit}`}`;
}

/** What was asked, as far as JSON can say it. */
function asJson(value: unknown): JsonValue {
  if (typeof value === 'bigint') return value.toString();
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || typeof value === 'string') return value;
  return Array.isArray(value) && value.every(item => typeof item === 'string')
    ? (value as string[])
    : (JSON.stringify(value)?.slice(0, 200) ?? null);
}
