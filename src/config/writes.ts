import { Expression, ExpressionError } from '../expression/expression.ts';
import { acceptValue, checkLimits } from '../model/accept.ts';
import { showDuration } from '../model/duration.ts';
import type { Plant } from '../model/plant.ts';
import type { Point, WriteRule } from '../model/point.ts';
import type { ConfigPath } from '../model/protocol.ts';
import { Refusal } from '../model/write.ts';
import { didYouMean } from './tools.ts';

type Report = (path: ConfigPath, message: string) => void;

/** An interlock that looks at something older says little of now. */
const SLOW = 10_000;

/** What writes say of other points: conditions, where they are verified, values that have to be possible, a heartbeat. */
export function checkWrites(plant: Plant, heartbeat: unknown, report: Report, warn: Report): void {
  for (const point of plant.points.values()) {
    if (point.write === undefined) continue;
    const path: ConfigPath = ['devices', point.device, 'points', point.id, 'write'];
    checkInterlock(plant, point, point.write, [...path, 'interlock'], report, warn);
    checkVerify(plant, point, point.write, [...path, 'verify'], report);
    checkSafe(point, point.write, [...path, 'lease', 'safe'], report);
  }
  const name = (heartbeat as { point?: unknown } | undefined)?.point;
  if (typeof name !== 'string') return;
  const point = plant.points.get(name);
  const path: ConfigPath = ['safety', 'heartbeat', 'point'];
  if (point === undefined) report(path, `there is no point ${name}${didYouMean(name, [...plant.points.keys()])}`);
  else if (point.write === undefined) report(path, `${name} is not writable: give it a \`write\``);
  else if (point.value.kind !== 'bool' && !(point.value.kind === 'number' && point.value.integer))
    report(path, `a heartbeat needs a whole number or a bit; ${name} is ${point.type}`);
}

function checkInterlock(plant: Plant, point: Point, { interlock }: WriteRule, path: ConfigPath, report: Report, warn: Report): void {
  if (interlock === undefined) return;
  try {
    const { points } = Expression.compile(interlock, plant, 'bool');
    if (points.length === 0) report(path, 'an interlock looks at points; this one names none');
    for (const input of points) {
      if (input === point) warn(path, `${point.name} is its own interlock: it is judged by the value that it has before it is written`);
      else if (input.pollInterval > SLOW)
        warn(
          path,
          `${input.name} is polled every ${showDuration(input.pollInterval)}: what the assistant is shown of it may be older than the value that decides`,
        );
    }
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    report(path, error.message);
  }
}

function checkVerify(plant: Plant, point: Point, { verifyBy }: WriteRule, path: ConfigPath, report: Report): void {
  if (verifyBy === undefined) return;
  const other = plant.points.get(verifyBy.point);
  if (other === undefined)
    report([...path, 'point'], `there is no point ${verifyBy.point}${didYouMean(verifyBy.point, [...plant.points.keys()])}`);
  else if (other.value.kind !== point.value.kind)
    report([...path, 'point'], `${other.name} is ${other.type}, which can not show what ${point.name} (${point.type}) was set to`);
  else if (verifyBy.tolerance > 0 && point.value.kind !== 'number') report([...path, 'tolerance'], 'a tolerance needs a number');
}

function checkSafe(point: Point, { lease }: WriteRule, path: ConfigPath, report: Report): void {
  if (lease === undefined) return;
  try {
    checkLimits(point, acceptValue(point, lease.safe));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    report(path, error.message);
  }
}
