import type { Point } from './point.ts';
import type { Role } from './role.ts';
import type { PublicSample, Sample } from './sample.ts';
import type { JsonValue } from './value.ts';

/** Who asks: on whose authority, and through which client. */
export interface Principal {
  readonly name: string;
  readonly role: Role;
  readonly client?: string;
}

export interface WriteRequest {
  readonly point: Point;
  /** As the client sent it; the gates decide what it means. `toggle` asks for the opposite of a fresh reading. */
  readonly value: unknown;
  readonly toggle?: true;
  readonly reason?: string;
  readonly expected?: unknown;
  readonly requestId?: string;
  readonly dryRun?: boolean;
  /** The trace that the request belongs to, in hexadecimal. */
  readonly traceId?: string;
  readonly principal: Principal;
}

/** A rule said no. The message is for whoever asked: what was asked, what holds, what would be accepted. */
export class Refusal extends Error {
  readonly rule: string;
  readonly live: readonly Sample[];
  constructor(rule: string, message: string, live: readonly Sample[] = []) {
    super(message);
    this.rule = rule;
    this.live = live;
  }
}

export type WriteStatus =
  | 'written'
  | 'unchanged'
  | 'unverified'
  | 'refused'
  | 'declined'
  | 'expired'
  | 'failed'
  | 'unknown'
  | 'pending'
  | 'simulated';

export interface WriteOutcome {
  readonly point: string;
  readonly requested: JsonValue;
  readonly before: JsonValue;
  readonly after?: JsonValue;
  readonly status: WriteStatus;
  /** Refusals: the rule that said no. */
  readonly rule?: string;
  readonly reason?: string;
  /** Refusals: the live values that the rule looked at. */
  readonly live?: readonly PublicSample[];
  /** Simulated writes: the requests that would have gone to the wire, in hexadecimal. */
  readonly wire?: readonly string[];
  readonly audit_id: string;
}

/** What a driver knows after a write: what was sent, and whether the device confirmed it in its own words. */
export interface WriteReceipt {
  readonly wire: readonly string[];
  /** Set where the device's confirmation names something else than what was asked. */
  readonly mismatch?: string;
}
