import type { Point } from '../model/point.ts';
import type { Role } from '../model/role.ts';
import type { Sample } from '../model/sample.ts';
import { escapeControls } from '../model/text.ts';
import { showValue } from '../model/value.ts';
import type { WriteOutcome } from '../model/write.ts';
import { readConfigAloud } from './config.ts';
import { askBridge, me, NobodyThere } from './door.ts';
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
  const { bridge } = await createBridge([file, ...config], { readOnly: true, quiet: true, visiting: true });
  const points = known(bridge.find(names));
  const samples = await bridge.readNow(points);
  process.stdout.write(table(samples.map(row)));
  await bridge.stop();
  if (samples.some(sample => sample.quality === 'bad')) process.exitCode = 1;
}

/** Polls, and prints a line for each change of these points until it is stopped. */
export async function watch(file: string, names: readonly string[], { config = [] }: MoreFiles): Promise<void> {
  const { bridge } = await createBridge([file, ...config], { readOnly: true, quiet: true, visiting: true });
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

/** Writes one point, through the same gates as any client, and by the bridge that runs if one does. Ends with 1 where it is not written. */
export async function write(file: string, name: string, text: string, options: WriteOptions): Promise<void> {
  const files = [file, ...(options.config ?? [])];
  const { plant, safety } = readConfigAloud(files);
  const point = plant.points.get(name);
  const by = me();
  const value = point === undefined ? text : typed(point, text);
  const what = { point: name, value, role: options.role, by, ...(options.dryRun === true && { dry_run: true }) };
  const why = options.reason === undefined ? {} : { why: options.reason };
  const { outcome } = await askBridge(safety.door, { ask: 'write', ...what, ...why }).catch(async (error: unknown) => {
    if (!(error instanceof NobodyThere)) throw error;
    return { outcome: await writeAlone(files, name, text, by, options) };
  });
  if (outcome === undefined) throw new NotDone('the bridge gave no outcome');
  const unit = point?.unit === undefined ? '' : ` ${point.unit}`;
  const after = outcome.after === undefined ? '' : `, is ${showValue(outcome.after)}${unit}`;
  process.stdout.write(`${escapeControls(`${outcome.point}: ${outcome.status}; was ${showValue(outcome.before)}${unit}${after}`)}\n`);
  if (outcome.reason !== undefined) process.stdout.write(`${escapeControls(outcome.reason)}\n`);
  if (outcome.wire !== undefined) process.stdout.write(`wire: ${escapeControls(outcome.wire.join(', '))}\n`);
  if (!['written', 'unchanged', 'simulated', 'pending'].includes(outcome.status)) process.exitCode = 1;
}

/** With a bridge of its own, for this one write. */
async function writeAlone(files: readonly string[], name: string, text: string, by: string, options: WriteOptions): Promise<WriteOutcome> {
  const { bridge } = await createBridge(files, { quiet: true, visiting: true });
  try {
    const [point] = known(bridge.find([name]));
    if (point === undefined) throw new NotDone(`there is no point ${name}`);
    const confirm = point.write?.confirm ?? 'none';
    if (confirm !== 'none' && options.dryRun !== true)
      throw new NotDone(
        `${name} is written only once a person has agreed (confirm: ${confirm}), for which a bridge has to run with this map`,
      );
    return await bridge.write(point, typed(point, text), {
      ...(options.reason !== undefined && { reason: options.reason }),
      ...(options.dryRun === true && { dryRun: true }),
      principal: { name: by, role: options.role },
    });
  } finally {
    await bridge.stop();
  }
}

/** What is typed on a command line: a list of labels for flags, else text that the gates understand. */
function typed(point: Point, text: string): unknown {
  return point.value.kind === 'flags' ? text.split(',').filter(Boolean) : text;
}

function known({ points, unknown }: { readonly points: readonly Point[]; readonly unknown: string }): readonly Point[] {
  if (unknown !== '') throw new NotDone(unknown);
  return points;
}
