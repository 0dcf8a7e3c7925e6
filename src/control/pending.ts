import type { JsonValue } from '../model/value.ts';
import type { WriteOutcome, WriteRequest } from '../model/write.ts';
import { type Grant, type Question, questionText } from './confirmation.ts';

/** More writes than this do not wait for people: who asks for more is told so. */
const MOST = 20;
/** Decided ones that are still told of. */
const KEPT = 20;

type State = 'waiting' | 'approved' | 'declined' | 'expired';

/** A write that waits for a person, or waited. */
export interface Pending {
  readonly id: string;
  readonly question: Question;
  readonly request: WriteRequest;
  readonly audit_id: string;
  readonly since: number;
  readonly until: number;
  state: State;
  approver?: string;
  outcome?: WriteOutcome;
}

/** As `fieldbridge pending` and `get_status` show it. */
export interface PendingView {
  readonly id: string;
  readonly state: State;
  readonly point: string;
  readonly requested: JsonValue;
  readonly question: string;
  readonly since: string;
  readonly expires: string;
  readonly approver?: string;
  readonly outcome?: { readonly status: WriteOutcome['status']; readonly reason?: string };
  readonly audit_id: string;
}

export class DecisionError extends Error {}

/** Writes that wait for a person outside the assistant's reach: bounded, for a time, decided once. */
export class PendingWrites {
  private readonly entries = new Map<string, Pending>();
  private readonly timers = new Set<NodeJS.Timeout>();
  private lifetime: number;
  private readonly expired: (entry: Pending) => void;

  /** @param expired what is to be done about one that nobody decided in time */
  constructor(lifetime: number, expired: (entry: Pending) => void) {
    this.lifetime = lifetime;
    this.expired = expired;
  }

  /** From now on. @param lifetime milliseconds */
  wait(lifetime: number): void {
    this.lifetime = lifetime;
  }

  get isFull(): boolean {
    return [...this.entries.values()].filter(entry => entry.state === 'waiting').length >= MOST;
  }

  add(request: WriteRequest, question: Question, auditId: string): Pending {
    const now = Date.now();
    let id = auditId.slice(0, 8);
    for (let length = 9; this.entries.has(id); length++) id = auditId.slice(0, length);
    const entry: Pending = { id, question, request, audit_id: auditId, since: now, until: now + this.lifetime, state: 'waiting' };
    this.entries.set(id, entry);
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      if (entry.state !== 'waiting') return;
      entry.state = 'expired';
      this.expired(entry);
    }, this.lifetime);
    timer.unref();
    this.timers.add(timer);
    const decided = [...this.entries.values()].filter(one => one.state !== 'waiting');
    for (const old of decided.slice(0, Math.max(0, decided.length - KEPT))) this.entries.delete(old.id);
    return entry;
  }

  /** The one decision about a write. @throws DecisionError in words */
  decide(id: string, state: 'approved' | 'declined', by: string, rule: 'any' | 'other'): Pending {
    const entry = this.entries.get(id);
    if (entry === undefined)
      throw new DecisionError(`there is no write ${JSON.stringify(id)} that waits; \`fieldbridge pending\` lists them`);
    if (entry.state !== 'waiting')
      throw new DecisionError(`the write ${id} was ${entry.state}${entry.approver === undefined ? '' : ` by ${entry.approver}`} already`);
    if (state === 'approved' && rule === 'other' && by === entry.request.principal.name)
      throw new DecisionError(`the write ${id} was asked for by ${by}, and safety.approver wants somebody else to approve it`);
    entry.state = state;
    entry.approver = by;
    return entry;
  }

  list(): PendingView[] {
    return [...this.entries.values()].map(({ id, state, question, since, until, approver, outcome, audit_id, request }) => ({
      id,
      state,
      point: question.point.name,
      requested: request.value as JsonValue,
      question: questionText(question),
      since: new Date(since).toISOString(),
      expires: new Date(until).toISOString(),
      ...(approver !== undefined && { approver }),
      ...(outcome !== undefined && {
        outcome: { status: outcome.status, ...(outcome.reason !== undefined && { reason: outcome.reason }) },
      }),
      audit_id,
    }));
  }

  stop(): void {
    for (const timer of this.timers) clearTimeout(timer);
  }
}

export const grantOf = ({ question, approver }: Pending): Grant => ({ kind: 'person', by: approver ?? '', from: question.from });
