import type { CallToolResult } from '@modelcontextprotocol/server';
import { showDuration } from '../../model/duration.ts';
import type { Point } from '../../model/point.ts';
import { showValue } from '../../model/value.ts';
import type { WriteOutcome, WriteRequest, WriteStatus } from '../../model/write.ts';
import type { Call } from '../served.ts';
import { type Arguments, answer, describePoint, isFieldText } from '../tool.ts';

/** Endings after which the asker must not believe that it is done. */
const NOT_DONE: readonly WriteStatus[] = ['refused', 'declined', 'expired', 'failed', 'unknown'];

export const isNotDone = (status: WriteStatus): boolean => NOT_DONE.includes(status);

/** What every tool that writes passes on from its arguments. */
export function requestOf(args: Arguments, call: Call): Omit<WriteRequest, 'point' | 'value'> {
  return {
    principal: call.principal,
    ...(args.reason !== undefined && { reason: args.reason as string }),
    ...(args.expected !== undefined && { expected: args.expected }),
    ...(args.request_id !== undefined && { requestId: args.request_id as string }),
    ...(args.dry_run === true && { dryRun: true }),
    ...(call.trace !== undefined && { traceId: call.trace.trace_id }),
  };
}

export function outcomeText(outcome: WriteOutcome, unit: string | undefined): string {
  const withUnit = (value: WriteOutcome['before'] | undefined): string =>
    `${showValue(value)}${unit === undefined || value === null || value === undefined ? '' : ` ${unit}`}`;
  const head = `${outcome.point}: ${outcome.status}`;
  const why = outcome.reason === undefined ? '' : `. ${outcome.reason}`;
  switch (outcome.status) {
    case 'written':
      return `${head}: ${withUnit(outcome.requested)}, was ${withUnit(outcome.before)}; read back`;
    case 'unchanged':
      return `${head}: it is ${withUnit(outcome.requested)} already, nothing was sent`;
    case 'refused':
      return `${head} (${outcome.rule}): ${outcome.reason}`;
    case 'simulated':
      return `${head}: ${withUnit(outcome.requested)}, is ${withUnit(outcome.before)}${why}; would send ${outcome.wire?.join(', ')}`;
    default:
      return `${head}: asked for ${withUnit(outcome.requested)}, was ${withUnit(outcome.before)}${why}`;
  }
}

/** Values of text, a device's own no, and what a rule has looked at. */
export const hasFieldText = ({ status, live }: WriteOutcome, point: Point): boolean =>
  isFieldText(point) || status === 'failed' || live?.some(({ value }) => typeof value === 'string') === true;

export function outcomeAnswer(outcome: WriteOutcome, point: Point): CallToolResult {
  return answer(outcome, outcomeText(outcome, point.unit), isNotDone(outcome.status), hasFieldText(outcome, point));
}

/** What an asker should know before it writes: what the point is, what is accepted, and that it acts on a plant. */
export function writeDescription(lead: string, point: Point): string {
  const { write } = point;
  const parts = [`${describePoint(point)}.`];
  const unit = point.unit === undefined ? '' : ` ${point.unit}`;
  if (write?.min !== undefined || write?.max !== undefined)
    parts.push(`Accepted: ${write.min ?? 'anything'} to ${write.max ?? 'anything'}${unit}.`);
  if (write?.maxStep !== undefined) parts.push(`At most ${write.maxStep}${unit} of change in one write.`);
  if (write !== undefined && write.minInterval > 0) parts.push(`Once in ${showDuration(write.minInterval)} at most.`);
  return `${lead.replace(/\.$/, '')}. Writes ${point.name}: ${parts.join(' ')} Acts on the real plant.`;
}
