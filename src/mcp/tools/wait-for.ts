import type { Field } from '../../control/field.ts';
import { Expression, ExpressionError } from '../../expression/expression.ts';
import { parseDuration, showDuration } from '../../model/duration.ts';
import { object } from '../../model/json-schema.ts';
import type { Point } from '../../model/point.ts';
import type { Sample } from '../../model/sample.ts';
import { findPoints, unknownText } from '../lookup.ts';
import { SAMPLES } from '../schemas.ts';
import type { Call } from '../served.ts';
import { ArgumentError, type Arguments, answer, isFieldText, presentAll, readTool, sentences, type Tool } from '../tool.ts';

const LONGEST = 5 * 60_000;
/** Below the minute after which many clients give up on a call. */
const USUAL = 50_000;

interface Waited {
  readonly fired: boolean;
  readonly samples: readonly Sample[];
}

/** @param run tells the cursors of this run from those of an earlier one */
export function waitFor(field: Field, run: string): Tool {
  const cursorNow = (): string => `${run}.${field.live.cursor}`;
  return {
    definition: readTool(
      'wait_for',
      'Waits until a condition over points holds, or until any of some points changes, and returns the samples. With the cursor of the last answer no change between two calls is missed.',
      object({
        condition: {
          type: 'string',
          maxLength: 2000,
          description: 'CEL over points, such as boiler.flow_temperature > 60.0 && boiler.mode == "auto"',
        },
        points: {
          type: 'array',
          items: { type: 'string', maxLength: 200 },
          minItems: 1,
          maxItems: 500,
          description: 'Instead of a condition: any change of these points, by name or glob',
        },
        cursor: { type: 'string', description: 'cursor of an earlier answer: a change since then answers at once' },
        timeout: {
          anyOf: [{ type: 'number' }, { type: 'string' }],
          description: 'Longest wait in seconds, or as 30s or 2m; at most 5m, 50s if left out',
        },
      }),
      object(
        {
          fired: { type: 'boolean', description: 'false: time ran out' },
          samples: SAMPLES,
          elapsed_ms: { type: 'integer' },
          cursor: { type: 'string' },
        },
        ['fired', 'samples', 'elapsed_ms', 'cursor'],
      ),
    ),
    call: async (args, call) => {
      const timeout = timeoutOf(args.timeout);
      const started = performance.now();
      const task = args.condition === undefined ? anyChange(field, args, run) : condition(field, String(args.condition), args);
      const { fired, samples } = await waiting(field, task, timeout, call);
      const elapsed = performance.now() - started;
      const lead = fired ? `After ${showDuration(elapsed)}:` : `Time ran out after ${showDuration(elapsed)} without it. Now:`;
      return answer(
        { fired, samples: presentAll(samples), elapsed_ms: Math.round(elapsed), cursor: cursorNow() },
        `${lead}\n${sentences(samples)}`,
        false,
        samples.some(({ point }) => isFieldText(point)),
      );
    },
  };
}

function timeoutOf(value: unknown): number {
  if (value === undefined) return USUAL;
  const text = String(value);
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms === undefined || ms > LONGEST)
    throw new ArgumentError(`timeout: up to 300 seconds, or 5m, are expected, got ${JSON.stringify(value)}`);
  return ms;
}

interface Task {
  readonly points: readonly Point[];
  /** The samples that fulfil it, or undefined. */
  check(): readonly Sample[] | undefined;
  /** Whether every sample counts, or only changes beyond the deadband. */
  readonly everySample: boolean;
}

function condition(field: Field, text: string, args: Arguments): Task {
  if (args.points !== undefined) throw new ArgumentError('condition or points is expected, not both');
  try {
    const expression = Expression.compile(text, field.plant, 'bool');
    if (expression.points.length === 0) throw new ArgumentError('condition: it names no point, so nothing could ever change it');
    const check = (): readonly Sample[] | undefined =>
      expression.run(point => field.live.get(point)).value === true ? expression.points.map(point => field.live.get(point)) : undefined;
    check();
    return { points: expression.points, check, everySample: true };
  } catch (error) {
    if (error instanceof ExpressionError) throw new ArgumentError(`condition: ${error.message}`);
    throw error;
  }
}

function anyChange(field: Field, args: Arguments, run: string): Task {
  if (args.points === undefined) throw new ArgumentError('condition or points is expected');
  const { points, unknown } = findPoints(field.plant, args.points as string[]);
  if (unknown.length > 0) throw new ArgumentError(unknownText(unknown));
  const since = sinceOf(args.cursor, run, field.live.cursor);
  const check = (): readonly Sample[] | undefined => {
    const changed = points.filter(point => since === undefined || field.live.changedAt(point) > since);
    return changed.length === 0 ? undefined : changed.map(point => field.live.get(point));
  };
  return { points, check, everySample: false };
}

/** undefined: the cursor is of an earlier run, since when anything may have changed. */
function sinceOf(cursor: unknown, run: string, now: number): number | undefined {
  if (cursor === undefined) return now;
  const match = /^([^.]{1,64})\.(\d{1,15})$/.exec(String(cursor));
  if (match === null) throw new ArgumentError('cursor: this is no cursor of this tool; leave it out to wait from now on');
  return match[1] === run && Number(match[2]) <= now ? Number(match[2]) : undefined;
}

function waiting(field: Field, task: Task, timeout: number, call: Call): Promise<Waited> {
  return new Promise((resolve, reject) => {
    const names = new Set(task.points.map(point => point.name));
    const done = (how: () => void): void => {
      clearTimeout(timer);
      stopListening();
      call.signal.removeEventListener('abort', onAbort);
      how();
    };
    const onAbort = (): void => done(() => reject(call.signal.reason instanceof Error ? call.signal.reason : new Error('cancelled')));
    const look = (): void => {
      try {
        const samples = task.check();
        if (samples !== undefined) done(() => resolve({ fired: true, samples }));
      } catch (error) {
        done(() => reject(error instanceof ExpressionError ? new ArgumentError(`condition: ${error.message}`) : error));
      }
    };
    const relevant = (sample: Sample): void => void (names.has(sample.point.name) && look());
    const stopListening = task.everySample ? field.live.onSample(relevant) : field.live.onChange(change => relevant(change.sample));
    const timer = setTimeout(
      () => done(() => resolve({ fired: false, samples: task.points.map(point => field.live.get(point)) })),
      timeout,
    );
    call.signal.addEventListener('abort', onAbort, { once: true });
    if (call.signal.aborted) onAbort();
    else look();
  });
}
