import { randomUUID } from 'node:crypto';
import { type Driver, type Log, NoReply } from '../drivers/driver.ts';
import { Counts } from '../model/counts.ts';
import { DAY } from '../model/duration.ts';
import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import type { Sample } from '../model/sample.ts';
import { type JsonValue, sameValue, toJson, type Value } from '../model/value.ts';
import { Refusal, type WriteOutcome, type WriteRequest } from '../model/write.ts';
import { Aftermath, matches } from './aftermath.ts';
import type { AuditRecord } from './audit/chain.ts';
import { AuditError } from './audit/files.ts';
import type { AuditLog } from './audit/log.ts';
import { type Confirmer, type Grant, hasMoved, Moved, type Question, questionText } from './confirmation.ts';
import type { DoorRequest } from './door.ts';
import { Duties, type Left } from './duties.ts';
import { type Ending, endingOf, refused } from './ending.ts';
import type { Field } from './field.ts';
import {
  checkExpected,
  checkPresent,
  checkPresentMap,
  checkRate,
  checkRole,
  checkSwitches,
  checkValue,
  checkWritable,
  oppositeOf,
  type SafetySettings,
} from './gates.ts';
import { Interlock } from './interlock.ts';
import { DecisionError, grantOf, type Pending, type PendingView, PendingWrites } from './pending.ts';
import { WriteRate } from './rate.ts';

/** Outcomes that are remembered for repeated request ids. */
const MAX_REMEMBERED = 1000;
/** How often a person is asked about one write, whose present value moves meanwhile. */
const MAX_QUESTIONS = 3;
/** How long the end of the bridge waits for writes to be verified. */
const STOP_WITHIN = 3000;
/** How long inputs of an interlock on another connection may take to be read while the bus is held. */
const BESIDE_WITHIN = 2000;

/** How far a write has come; what is known of it goes into its outcome. */
interface Progress {
  readonly auditId: string;
  wanted: Value | undefined;
  before: Sample | undefined;
  wire: readonly string[];
  intended: boolean;
  unchanged: boolean;
  grant: Grant | undefined;
}

/**
 * The one way down to the wire. Gates, the question to a person, then the slot on the bus with a fresh reading of the
 * point and of what its interlock looks at, the gates once more, the intent on the disk, the request, and the reading back.
 */
export class Control {
  readonly duties: Duties;
  /** Writes by what became of them. */
  readonly counts = new Counts();
  private readonly field: Field;
  private settings: SafetySettings;
  private audit: AuditLog | undefined;
  private readonly log: Log;
  private readonly rate: WriteRate;
  private readonly aftermath: Aftermath;
  private interlocks: ReadonlyMap<string, Interlock>;
  private readonly waiting: PendingWrites;
  private readonly lastOfPoint = new Map<string, Promise<unknown>>();
  private readonly remembered = new Map<string, { readonly asked: string; readonly outcome: Promise<WriteOutcome> }>();
  private left: Left = { pulses: [], leases: [] };
  private readonly running = new Set<Promise<unknown>>();
  private isStopping = false;
  private auditFailure: string | undefined;

  /** @param audit undefined where nothing can ever be written */
  constructor(field: Field, settings: SafetySettings, audit: AuditLog | undefined, log: Log) {
    this.field = field;
    this.settings = settings;
    this.audit = audit;
    this.log = log;
    this.rate = new WriteRate(settings.maxWritesPerMinute);
    this.aftermath = new Aftermath(field);
    this.interlocks = interlocksOf(field.plant);
    this.waiting = new PendingWrites(settings.confirmTimeout, entry => void this.expire(entry));
    this.duties = new Duties(field, this.aftermath, record => this.record(record), log, settings.heartbeat);
  }

  /** Lets what goes to the wire now come to its end, a while. */
  async settle(within: number): Promise<void> {
    const patience = new Promise(resolve => setTimeout(resolve, within).unref());
    await Promise.race([Promise.allSettled(this.running), patience]);
  }

  /** Rules of another map, for everything that has not gone to the wire. @param audit the record, where there was none before */
  async become(settings: SafetySettings, audit: AuditLog | undefined): Promise<void> {
    const wasWriting = this.isWriting;
    if (settings.maxWritesPerMinute !== this.settings.maxWritesPerMinute) this.rate.allow(settings.maxWritesPerMinute);
    this.settings = settings;
    this.interlocks = interlocksOf(this.field.plant);
    this.waiting.wait(settings.confirmTimeout);
    if (this.audit === undefined && audit !== undefined) {
      this.audit = audit;
      await this.takeUp();
    }
    this.duties.beatFor(this.isWriting ? settings.heartbeat : undefined);
    if (this.isWriting && !wasWriting) this.start();
  }

  /** Whether writes are switched on at all: what clients are shown depends on it. */
  get enabled(): boolean {
    return this.settings.writes !== 'disabled' && !this.settings.readOnly;
  }

  private get isWriting(): boolean {
    return this.settings.writes === 'enabled' && !this.settings.readOnly;
  }

  get mode(): SafetySettings['writes'] {
    return this.settings.readOnly ? 'disabled' : this.settings.writes;
  }

  /** Why nothing can be written although writes are enabled: the audit file fails. */
  get trouble(): string | undefined {
    return this.auditFailure;
  }

  /** Writes that wait for a person, and those that were decided lately. */
  get pending(): PendingView[] {
    return this.waiting.list();
  }

  /** Counts what earlier runs have written, and finds what they have left to be done, from the record. */
  async takeUp(): Promise<void> {
    const rules = [...this.field.plant.points.values()].flatMap(({ write }) => write ?? []);
    if (this.audit === undefined || !rules.some(rule => (rule.maxPerDay ?? rule.pulse ?? rule.lease) !== undefined)) return;
    const longest = Math.max(DAY, ...rules.map(rule => rule.lease?.ttl ?? 0));
    this.left = await this.duties.takeUp(this.audit.records(Date.now() - 2 * longest), (point, wall) => this.rate.recall(point, wall));
  }

  /** Does what earlier runs have left, and goes on doing what has to be done again and again. */
  start(): void {
    if (!this.isWriting) return;
    this.duties.start(this.left);
    this.left = { pulses: [], leases: [] };
  }

  /** Begins nothing more, and lets what has begun come to its end and into the record. */
  async stop(): Promise<void> {
    this.isStopping = true;
    this.waiting.stop();
    this.duties.prepareToStop();
    await this.settle(STOP_WITHIN);
    await this.duties.stop();
  }

  /**
   * Every way to end is an outcome; nothing is thrown for what a device or a rule says.
   *
   * @param confirmer how the client can be asked; what that throws is passed on
   */
  submit(request: WriteRequest, signal: AbortSignal, confirmer?: Confirmer): Promise<WriteOutcome> {
    if (request.requestId === undefined) return this.execute(request, signal, confirmer);
    const key = JSON.stringify([request.principal.name, request.requestId]);
    const asked = JSON.stringify([request.point.name, request.toggle ?? request.value], (_, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
    const known = this.remembered.get(key);
    if (known !== undefined) {
      if (known.asked === asked) return known.outcome;
      return this.finish(
        request,
        newProgress(),
        refused(new Refusal('request_id', 'this request_id was used for another write before; choose a new one')),
      );
    }
    const outcome = this.execute(request, signal, confirmer);
    this.remembered.set(key, { asked, outcome });
    // A question to the client is no outcome: its answer comes with the same id.
    outcome.catch(() => this.remembered.delete(key));
    const [oldest] = this.remembered.keys();
    if (this.remembered.size > MAX_REMEMBERED && oldest !== undefined) this.remembered.delete(oldest);
    return outcome;
  }

  /**
   * A person's decision about a write that waits.
   *
   * @returns the outcome of an approved one
   * @throws DecisionError, AuditError in words
   */
  async decide(id: string, verdict: 'approved' | 'declined', by: string, why?: string): Promise<WriteOutcome> {
    const entry = this.waiting.decide(id, verdict, by, this.settings.approver);
    const { request, question, audit_id } = entry;
    const progress = { ...newProgress(audit_id), wanted: question.to, before: question.from };
    await this.record({
      ...this.facts(request, progress),
      kind: verdict === 'approved' ? 'approval' : 'declined',
      audit_id,
      approver: by,
      ...(why !== undefined && { comment: why }),
    });
    if (verdict === 'declined') {
      const reason = `declined by ${by}${why === undefined ? '' : `: ${why}`}`;
      entry.outcome = await this.finish(request, progress, { status: 'declined', reason });
      return entry.outcome;
    }
    entry.outcome = await this.carry(request, { ...progress, grant: grantOf(entry) }, new AbortController().signal);
    return entry.outcome;
  }

  /** Records that somebody locked or unlocked the bridge. */
  async noteLock(kind: 'lock' | 'unlock', by: string, why: string | undefined): Promise<void> {
    this.log.warn({ by }, kind === 'lock' ? `locked by ${by}: nothing is written` : `unlocked by ${by}`);
    await this.record({ kind, by, ...(why !== undefined && { why }) });
  }

  /** A write from the command line beside this bridge, which has the record and the wire. */
  async writeByHand({ point: name, value, role, by, why, dry_run }: Extract<DoorRequest, { ask: 'write' }>): Promise<WriteOutcome> {
    const point = this.field.plant.points.get(name);
    if (point === undefined) throw new DecisionError(`the bridge that runs has no point ${name}`);
    const request = {
      point,
      value,
      principal: { name: by, role },
      ...(why !== undefined && { reason: why }),
      ...(dry_run === true && { dryRun: true }),
    };
    return await this.submit(request, new AbortController().signal);
  }

  private async execute(request: WriteRequest, signal: AbortSignal, confirmer: Confirmer | undefined): Promise<WriteOutcome> {
    const progress = newProgress();
    try {
      checkSwitches(this.settings);
      checkWritable(request.point);
      checkPresentMap(this.field.plant, request.point);
      await this.checkBelief(request, progress, signal);
      checkRole(request);
      if (request.toggle === undefined) progress.wanted = checkValue(request);
    } catch (error) {
      return await this.finish(request, progress, endingOf(error));
    }
    const kind = request.point.write?.confirm ?? 'none';
    if (kind === 'none' || request.dryRun === true || this.settings.writes === 'simulated')
      return await this.carry(request, progress, signal);
    return await this.carryWithConsent(request, progress, signal, kind === 'client' ? confirmer : undefined);
  }

  /** Who is mistaken about what is, is told that before anything else. */
  private async checkBelief(request: WriteRequest, progress: Progress, signal: AbortSignal): Promise<void> {
    if (request.expected === undefined) return;
    const [present] = await this.field.readNow([request.point], signal);
    if (present === undefined) return;
    progress.before = present;
    checkExpected(request, present);
  }

  /** Asks a person, and again where the present value has moved meanwhile. */
  private async carryWithConsent(
    request: WriteRequest,
    progress: Progress,
    signal: AbortSignal,
    confirmer: Confirmer | undefined,
  ): Promise<WriteOutcome> {
    for (let times = 0; times < MAX_QUESTIONS; times++) {
      let question: Question;
      try {
        question = await this.prepare(request, progress, signal);
      } catch (error) {
        return await this.finish(request, progress, endingOf(error));
      }
      // Nothing would be sent, so nobody need be asked.
      if (matches(question.from, question.to)) return await this.carry(request, progress, signal);
      if (confirmer?.canAsk !== true) return await this.wait(request, progress, question);
      let answer: Awaited<ReturnType<Confirmer['ask']>>;
      try {
        answer = await confirmer.ask(question, signal);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        return await this.finish(request, progress, refused(error));
      }
      if (answer !== 'accepted')
        return await this.finish(request, progress, {
          status: answer,
          reason: answer === 'declined' ? 'the person at the client said no' : 'nobody at the client answered in time',
        });
      progress.grant = { kind: 'client', by: request.principal.client ?? request.principal.name, from: question.from };
      try {
        return await this.inTurn(request.point, () => this.attempt(request, progress, signal));
      } catch (error) {
        if (!(error instanceof Moved)) throw error;
      }
    }
    const moved = new Refusal('confirm', `${request.point.name} kept moving while the person was asked; ask again when it is steady`);
    return await this.finish(request, progress, refused(moved));
  }

  /** What a person is asked: every rule was passed, on readings that are fresh. @throws what ends the write */
  private async prepare(request: WriteRequest, progress: Progress, signal: AbortSignal): Promise<Question> {
    const { point, principal, reason } = request;
    const interlock = this.interlocks.get(point.name);
    const [from] = await this.field.readNow([...new Set([point, ...(interlock?.points ?? [])])], signal);
    if (from === undefined) throw new Error(`no sample of ${point.name}`);
    progress.before = from;
    if (request.toggle === true) progress.wanted = oppositeOf(from);
    const to = progress.wanted ?? null;
    checkPresent(request, to, from);
    checkRate(request, this.rate, performance.now());
    interlock?.check(one => this.field.live.get(one));
    return { point, from, to, principal, ...(reason !== undefined && { why: reason }) };
  }

  private async wait(request: WriteRequest, progress: Progress, question: Question): Promise<WriteOutcome> {
    if (this.waiting.isFull) {
      const full = new Refusal('confirm', 'as many writes as can wait for a person do so already; try again when they are decided');
      return await this.finish(request, progress, refused(full));
    }
    // Who approves, approves this value, also where a toggle was asked for.
    const { toggle: _, ...rest } = request;
    const fixed: WriteRequest = { ...rest, value: toJson(question.to) };
    try {
      await this.record({
        ...this.facts(request, progress),
        kind: 'pending',
        audit_id: progress.auditId,
        question: questionText(question),
      });
    } catch (error) {
      return await this.finish(request, progress, endingOf(error));
    }
    this.counts.add(['pending']);
    const { id, until } = this.waiting.add(fixed, question, progress.auditId);
    this.log.info({ id, point: question.point.name }, `a write waits for a person: ${questionText(question)}`);
    return this.outcomeOf(request, progress, {
      status: 'pending',
      reason: `a person has to approve it with \`fieldbridge approve ${id}\` until ${new Date(until).toISOString()}; get_status tells what became of ${id}`,
    });
  }

  private async expire(entry: Pending): Promise<void> {
    const progress = { ...newProgress(entry.audit_id), wanted: entry.question.to, before: entry.question.from };
    entry.outcome = await this.finish(entry.request, progress, { status: 'expired', reason: 'nobody decided in time' });
  }

  private async carry(request: WriteRequest, progress: Progress, signal: AbortSignal): Promise<WriteOutcome> {
    try {
      return await this.inTurn(request.point, () => this.attempt(request, progress, signal));
    } catch (error) {
      if (!(error instanceof Moved)) throw error;
      const { present } = error;
      return await this.finish(
        request,
        progress,
        refused(
          new Refusal('confirm', `${request.point.name} has moved since a person was asked about it; it has to be asked for again`, [
            present,
          ]),
        ),
      );
    }
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

  private async attempt(request: WriteRequest, progress: Progress, signal: AbortSignal): Promise<WriteOutcome> {
    if (this.isStopping)
      return await this.finish(request, progress, refused(new Refusal('stopping', 'the bridge is stopping: nothing is begun any more')));
    const work = this.carryOut(request, progress, signal).then(ending => this.finish(request, progress, ending));
    this.running.add(work);
    try {
      const outcome = await work;
      this.duties.written(request.point, progress.wanted ?? null, outcome.status);
      return outcome;
    } finally {
      this.running.delete(work);
    }
  }

  private async carryOut(request: WriteRequest, progress: Progress, signal: AbortSignal): Promise<Ending> {
    const { point } = request;
    try {
      checkPresentMap(this.field.plant, point);
      const driver = this.field.driverOf(point);
      if (request.toggle === true) {
        const [sample] = await this.field.readNow([point], signal);
        if (sample !== undefined) progress.before = sample;
        if (sample !== undefined) progress.wanted = oppositeOf(sample);
      }
      const wanted = progress.wanted ?? null;
      const isPulse = point.write?.pulse !== undefined && wanted === true;
      const beside = this.inputsOn(driver, point);
      const approve = (present: Sample, wire: readonly string[], read: readonly Sample[]): Promise<boolean> =>
        this.approve(request, progress, present, wire, read);
      try {
        const receipt = await driver.write(point, wanted, { approve, beside }, signal);
        if (progress.before !== undefined) this.field.live.update([progress.before]);
        if (receipt === undefined) return this.notSent(progress, wanted);
        if (isPulse) return await this.duties.release(point, progress.auditId, receipt);
        return await this.aftermath.verify(point, wanted, receipt);
      } catch (error) {
        // A contact that may be closed is let go of, whatever is known of it.
        if (error instanceof NoReply && isPulse) await this.duties.release(point, progress.auditId, { wire: error.wire });
        throw error;
      }
    } catch (error) {
      if (error instanceof NoReply) return await this.aftermath.afterSilence(point, error);
      if (error instanceof Moved) throw error;
      return endingOf(error);
    }
  }

  private notSent(progress: Progress, wanted: Value): Ending {
    if (progress.unchanged) return { status: 'unchanged', after: toJson(wanted) };
    const why = this.settings.writes === 'simulated' ? 'writes are simulated (safety.writes)' : 'dry run';
    return { status: 'simulated', wire: progress.wire, reason: `${why}: every rule was passed and nothing was sent` };
  }

  /** What the interlock of a point looks at that the same driver can read in the slot of the write. */
  private inputsOn(driver: Driver, point: Point): Point[] {
    const inputs = this.interlocks.get(point.name)?.points ?? [];
    return inputs.filter(input => input !== point && this.field.driverOf(input) === driver);
  }

  /** The gates once more inside the slot, on fresh readings, and the intent on the disk. */
  private async approve(
    request: WriteRequest,
    progress: Progress,
    present: Sample,
    wire: readonly string[],
    beside: readonly Sample[],
  ): Promise<boolean> {
    const wanted = progress.wanted ?? null;
    progress.before = present;
    progress.wire = wire;
    checkSwitches(this.settings);
    checkPresentMap(this.field.plant, request.point);
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
    await this.checkInterlock(request.point, present, beside);
    if (progress.grant !== undefined && hasMoved(progress.grant.from, present)) throw new Moved(present);
    if (request.dryRun === true || this.settings.writes === 'simulated') return false;
    const { pulse, lease } = request.point.write ?? {};
    await this.record({
      ...this.facts(request, progress),
      kind: 'intent',
      audit_id: progress.auditId,
      ...(pulse !== undefined && wanted === true && { pulse: pulse.ms }),
      ...(lease !== undefined && { lease: lease.ttl }),
      wire,
    });
    progress.intended = true;
    this.rate.note(request.point);
    return true;
  }

  private async checkInterlock(point: Point, present: Sample, beside: readonly Sample[]): Promise<void> {
    const interlock = this.interlocks.get(point.name);
    if (interlock === undefined) return;
    const fresh = new Map([present, ...beside].map(sample => [sample.point.name, sample]));
    this.field.live.update(beside);
    const elsewhere = interlock.points.filter(input => !fresh.has(input.name));
    if (elsewhere.length > 0) for (const sample of await this.readElsewhere(interlock, elsewhere)) fresh.set(sample.point.name, sample);
    interlock.check(input => fresh.get(input.name) ?? this.field.live.get(input));
  }

  private async readElsewhere(interlock: Interlock, points: readonly Point[]): Promise<Sample[]> {
    try {
      return await this.field.readNow(points, AbortSignal.timeout(BESIDE_WITHIN));
    } catch {
      const names = points.map(({ name }) => name).join(', ');
      throw new Refusal('interlock', `the interlock ${interlock.text} can not be judged: ${names} could not be read in time; try again`);
    }
  }

  private outcomeOf(request: WriteRequest, progress: Progress, ending: Ending): WriteOutcome {
    return {
      point: request.point.name,
      requested: progress.wanted === undefined ? asJson(request.value) : toJson(progress.wanted),
      before: progress.before === undefined ? null : toJson(progress.before.value),
      ...ending,
      audit_id: progress.auditId,
    };
  }

  private async finish(request: WriteRequest, progress: Progress, ending: Ending): Promise<WriteOutcome> {
    const outcome = this.outcomeOf(request, progress, ending);
    this.counts.add([ending.status]);
    if (ending.status === 'simulated' && this.settings.writes !== 'simulated') return outcome;
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
    { wanted, before, grant }: Progress,
  ): Record<string, unknown> {
    return {
      point: point.name,
      requested: wanted === undefined ? asJson(value) : toJson(wanted),
      ...(toggle === true && { toggle }),
      before: before === undefined ? null : toJson(before.value),
      ...(point.unit !== undefined && { unit: point.unit }),
      ...(reason !== undefined && { why: reason }),
      principal: principal.name,
      role: principal.role,
      ...(principal.client !== undefined && { client: principal.client }),
      ...(traceId !== undefined && { trace_id: traceId }),
      ...(requestId !== undefined && { request_id: requestId }),
      ...(grant !== undefined && { confirmed: { kind: grant.kind, by: grant.by, seeing: toJson(grant.from.value) } }),
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

const interlocksOf = (plant: Plant): ReadonlyMap<string, Interlock> =>
  new Map(
    [...plant.points.values()].flatMap(({ name, write }) =>
      write?.interlock === undefined ? [] : [[name, Interlock.compile(write.interlock, plant)] as const],
    ),
  );

const newProgress = (auditId: string = randomUUID()): Progress => ({
  auditId,
  wanted: undefined,
  before: undefined,
  wire: [],
  intended: false,
  unchanged: false,
  grant: undefined,
});

/** What was asked, as far as JSON can say it. */
function asJson(value: unknown): JsonValue {
  if (typeof value === 'bigint') return value.toString();
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || typeof value === 'string') return value;
  return Array.isArray(value) && value.every(item => typeof item === 'string')
    ? (value as string[])
    : (JSON.stringify(value)?.slice(0, 200) ?? null);
}
