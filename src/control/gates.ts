import { existsSync, readFileSync } from 'node:fs';
import { acceptValue, checkLimits } from '../model/accept.ts';
import { showDuration } from '../model/duration.ts';
import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import { mayActAs } from '../model/role.ts';
import type { Sample } from '../model/sample.ts';
import { escapeControls } from '../model/text.ts';
import { asNumber, sameValue, showValue, type Value } from '../model/value.ts';
import { Refusal, type WriteRequest } from '../model/write.ts';

/** What the whole bridge allows. */
export interface SafetySettings {
  readonly writes: 'disabled' | 'simulated' | 'enabled';
  readonly readOnly: boolean;
  readonly killSwitch?: string;
  /** The file that `fieldbridge lock` makes. */
  readonly lockFile: string;
  readonly maxWritesPerMinute: number;
  /** Milliseconds that a person has to answer. */
  readonly confirmTimeout: number;
  readonly approver: 'any' | 'other';
  readonly heartbeat?: { readonly point: string; readonly interval: number };
}

/** When a point was last written, and how many writes the bridge has left. */
export interface WriteHistory {
  /** Monotonic milliseconds; undefined: not in this run. */
  lastWrite(point: string): number | undefined;
  /** Writes within the last 24 hours, and milliseconds until the oldest of them is older. */
  ofDay(point: string): { readonly count: number; readonly wait: number };
  /** Writes that may be made now; with none left, milliseconds until the next. */
  budget(): { readonly left: number; readonly wait: number };
}

/** Whether anything may be written at all. @throws Refusal */
export function checkSwitches(settings: SafetySettings): void {
  if (settings.readOnly) throw new Refusal('read_only', 'the bridge was started with --read-only: nothing is written');
  if (settings.writes === 'disabled')
    throw new Refusal(
      'writes_disabled',
      'writes are disabled in the configuration (safety.writes): nothing is written until an engineer enables them',
    );
  if (existsSync(settings.lockFile))
    throw new Refusal(
      'kill_switch',
      `${lockText(settings.lockFile)}: nothing is written until a person unlocks it with \`fieldbridge unlock\``,
    );
  if (settings.killSwitch !== undefined && existsSync(settings.killSwitch))
    throw new Refusal('kill_switch', 'the kill switch is on: nothing is written until a person takes it off');
}

/** Who locked the bridge, as far as the file tells. */
function lockText(file: string): string {
  try {
    const { by, at, why } = JSON.parse(readFileSync(file, 'utf8')) as { by?: unknown; at?: unknown; why?: unknown };
    const reason = typeof why === 'string' ? ` (${escapeControls(why).slice(0, 200)})` : '';
    return `the bridge was locked by ${escapeControls(String(by)).slice(0, 100)} at ${escapeControls(String(at)).slice(0, 40)}${reason}`;
  } catch {
    return 'the bridge is locked';
  }
}

/** Whether the map lets anybody write this point. @throws Refusal */
export function checkWritable({ name, write }: Point): void {
  if (write === undefined) throw new Refusal('not_writable', `${name} is not writable: the map gives it no \`write\``);
}

/** What was asked, or approved, by the rules of an earlier map is not done by them. @throws Refusal */
export function checkPresentMap(plant: Plant, point: Point): void {
  if (plant.points.get(point.name) !== point)
    throw new Refusal('map', `the map was changed meanwhile, and ${point.name} is not what it was: look at it, and ask again`);
}

/** Whether this asker may write this point. @throws Refusal */
export function checkRole({ point, principal }: WriteRequest): void {
  if (point.write !== undefined && !mayActAs(principal.role, point.write.role))
    throw new Refusal('role', `${point.name} may be written by the role ${point.write.role}; this client has the role ${principal.role}`);
}

/**
 * The value that the request plainly means, checked against kind, limits, type and grid.
 *
 * @returns the value as the device will show it
 * @throws Refusal
 */
export function checkValue({ point, value }: WriteRequest): Value {
  const accepted = acceptValue(point, value);
  checkLimits(point, accepted);
  return point.canonical?.(accepted) ?? accepted;
}

/** The state that a toggle asks for: the one that the fresh reading is not in. @throws Refusal */
export function oppositeOf(present: Sample): Value {
  const { point, value } = present;
  if (present.quality !== 'good')
    throw new Refusal(
      'present_value',
      `${point.name} can not be toggled, since its present state is not known (${present.reason}); say which state it should have`,
      [present],
    );
  if (typeof value === 'boolean') return !value;
  const labels = point.value.kind === 'enum' ? point.value.labels : [];
  return labels.find(label => label !== value) ?? null;
}

/** What depends on the present value, which was read just now. @throws Refusal */
export function checkPresent(request: WriteRequest, wanted: Value, present: Sample): void {
  checkExpected(request, present);
  checkStep(request, wanted, present);
}

export function checkExpected({ point, expected }: WriteRequest, present: Sample): void {
  if (expected === undefined) return;
  const believed = acceptValue(point, expected);
  const [a, b] = [asNumber(believed), asNumber(present.value)];
  const equal = a !== undefined && b !== undefined ? Math.abs(a - b) <= Math.abs(b) * 1e-9 : sameValue(believed, present.value);
  if (present.quality === 'bad' || !equal) {
    throw new Refusal(
      'expected',
      `conflict: ${point.name} was expected to be ${showValue(believed)}, and is ${present.quality === 'bad' ? `not known (${present.reason})` : showValue(present.value)}`,
      [present],
    );
  }
}

function checkStep({ point }: WriteRequest, wanted: Value, present: Sample): void {
  const most = point.write?.maxStep;
  const to = asNumber(wanted);
  if (most === undefined || to === undefined) return;
  const unit = point.unit === undefined ? '' : ` ${point.unit}`;
  const from = present.quality === 'bad' ? undefined : asNumber(present.value);
  if (from === undefined)
    throw new Refusal(
      'max_step',
      `${point.name} may change by at most ${most}${unit} in one write, and its present value is not known (${present.reason})`,
      [present],
    );
  if (Math.abs(to - from) <= most * (1 + 1e-9)) return;
  const ends = [from - most, from + most].map(end => Number(end.toPrecision(12)));
  throw new Refusal(
    'max_step',
    `from ${from} to ${to}${unit} is more than max_step ${most}${unit}; accepted now: ${ends[0]} to ${ends[1]}${unit}`,
    [present],
  );
}

/** How often this point and the whole bridge may be written. @throws Refusal */
export function checkRate({ point }: WriteRequest, history: WriteHistory, now: number): void {
  const last = history.lastWrite(point.name);
  const least = point.write?.minInterval ?? 0;
  if (last !== undefined && now - last < least) {
    throw new Refusal(
      'min_interval',
      `${point.name} was written ${showDuration(now - last)} ago, and ${showDuration(least)} must lie between two writes; accepted in ${showDuration(least - (now - last))}`,
    );
  }
  const most = point.write?.maxPerDay;
  const day = history.ofDay(point.name);
  if (most !== undefined && day.count >= most)
    throw new Refusal(
      'max_per_day',
      `${point.name} was written ${day.count} times in the last 24 hours, and max_per_day is ${most}; accepted in ${showDuration(day.wait)}`,
    );
  const { left, wait } = history.budget();
  if (left < 1)
    throw new Refusal(
      'rate',
      `the bridge has made as many writes as it may in a minute (safety.max_writes_per_minute); accepted in ${showDuration(wait)}`,
    );
}
