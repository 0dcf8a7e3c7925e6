import { userInfo } from 'node:os';
import type { Point } from '../model/point.ts';
import type { Role } from '../model/role.ts';
import type { Sample } from '../model/sample.ts';
import { showValue } from '../model/value.ts';
import { askedToEnd, createBridge, type StartOptions } from './start.ts';
import { table } from './table.ts';

/** Something could not be done that was asked for; what, stands on standard error. */
class NotDone extends Error {}

function row(sample: Sample): string[] {
  const { point, value, quality, reason, exception } = sample;
  const why =
    reason === undefined ? quality : `${quality}: ${reason}${exception === undefined ? '' : ` ${exception.code} (${exception.name})`}`;
  return [point.name, quality === 'bad' ? '—' : typeof value === 'string' ? value : showValue(value), point.unit ?? '', why];
}

export interface MoreFiles {
  /** Merged after the first. */
  readonly config?: readonly string[];
}

/** Reads points once, now, without polling anything else. Ends with 1 where one of them is bad. */
export async function read(file: string, names: readonly string[], { config = [] }: MoreFiles): Promise<void> {
  const bridge = await createBridge([file, ...config], { readOnly: true, quiet: true, visiting: true });
  const points = known(bridge.find(names));
  const samples = await bridge.readNow(points);
  process.stdout.write(table(samples.map(row)));
  await bridge.stop();
  if (samples.some(sample => sample.quality === 'bad')) process.exitCode = 1;
}

/** Polls, and prints a line for each change of these points until it is stopped. */
export async function watch(file: string, names: readonly string[], { config = [] }: MoreFiles): Promise<void> {
  const bridge = await createBridge([file, ...config], { readOnly: true, quiet: true, visiting: true });
  const points = new Set<Point>(known(bridge.find(names)));
  const told = askedToEnd();
  bridge.onChange(sample => {
    if (points.has(sample.point)) process.stdout.write(`${new Date(sample.wall).toISOString()}  ${row(sample).join('  ').trimEnd()}\n`);
  });
  bridge.start();
  await told;
  await bridge.stop();
}

export interface WriteOptions extends StartOptions, MoreFiles {
  readonly reason?: string;
  readonly role: Role;
  readonly dryRun?: true;
}

/** Writes one point, through the same gates as any client. Ends with 1 where it is not written. */
export async function write(file: string, name: string, text: string, options: WriteOptions): Promise<void> {
  const bridge = await createBridge([file, ...(options.config ?? [])], { quiet: true, visiting: true });
  const [point] = known(bridge.find([name]));
  if (point === undefined) throw new NotDone(`there is no point ${name}`);
  const outcome = await bridge.write(point, typed(point, text), {
    ...(options.reason !== undefined && { reason: options.reason }),
    ...(options.dryRun === true && { dryRun: true }),
    principal: { name: `cli:${userInfo().username}`, role: options.role },
  });
  const unit = point.unit === undefined ? '' : ` ${point.unit}`;
  const after = outcome.after === undefined ? '' : `, is ${showValue(outcome.after)}${unit}`;
  process.stdout.write(`${point.name}: ${outcome.status}; was ${showValue(outcome.before)}${unit}${after}\n`);
  if (outcome.reason !== undefined) process.stdout.write(`${outcome.reason}\n`);
  if (outcome.wire !== undefined) process.stdout.write(`wire: ${outcome.wire.join(', ')}\n`);
  await bridge.stop();
  if (!['written', 'unchanged', 'simulated'].includes(outcome.status)) process.exitCode = 1;
}

/** What is typed on a command line: a list of labels for flags, else text that the gates understand. */
function typed(point: Point, text: string): unknown {
  return point.value.kind === 'flags' ? text.split(',').filter(Boolean) : text;
}

function known({ points, unknown }: { readonly points: readonly Point[]; readonly unknown: string }): readonly Point[] {
  if (unknown !== '') throw new NotDone(unknown);
  return points;
}
