import type { Point } from '../model/point.ts';
import { hasLeftDeadband, type Sample } from '../model/sample.ts';
import { showValue, type Value } from '../model/value.ts';
import type { Principal } from '../model/write.ts';

/** What a person is asked: everything that the decision needs. */
export interface Question {
  readonly point: Point;
  readonly from: Sample;
  readonly to: Value;
  readonly why?: string;
  readonly principal: Principal;
}

/** The question in a sentence: `Write boiler.setpoint to 65 °C? It is 60 °C now. Asked for by anna, reason: "colder outside".` */
export function questionText({ point, from, to, why, principal }: Question): string {
  const unit = point.unit === undefined ? '' : ` ${point.unit}`;
  const present = from.quality === 'bad' ? `not known (${from.reason})` : `${showValue(from.value)}${unit}`;
  const what = point.description === undefined ? '' : ` (${point.description})`;
  const pulse = point.write?.pulse === undefined ? '' : `, for ${point.write.pulse.ms} ms`;
  return `Write ${point.name}${what} to ${showValue(to)}${unit}${pulse}? It is ${present} now. Asked for by ${principal.client ?? principal.name}${why === undefined ? ', without a reason' : `, reason: ${JSON.stringify(why)}`}.`;
}

/** How a client is asked while its call is open. */
export interface Confirmer {
  /** Whether there is a person at the client who can be asked. */
  readonly canAsk: boolean;
  /** Whether the answer comes while the call is open, so that nothing before it is done twice. */
  readonly isWithinCall: boolean;
  /** Whatever it throws that is no Refusal goes to the client as it is: in 2026-07-28 the question itself is such. */
  ask(question: Question, signal: AbortSignal): Promise<'accepted' | 'declined' | 'expired'>;
}

/** That somebody agreed, to what, seeing which value. */
export interface Grant {
  readonly kind: 'client' | 'person';
  readonly by: string;
  readonly from: Sample;
}

/** The present value is not any more what the person saw. */
export class Moved extends Error {
  readonly present: Sample;
  constructor(present: Sample) {
    super('the present value has moved since the question');
    this.present = present;
  }
}

/** Whether a value has moved by more than a change that is worth telling. */
export function hasMoved(from: Sample, to: Sample): boolean {
  if ((from.quality === 'bad') !== (to.quality === 'bad')) return true;
  return hasLeftDeadband(from.point, from.value, to.value);
}
