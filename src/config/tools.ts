import { acceptValue, checkLimits } from '../model/accept.ts';
import { GENERAL_TOOLS, type Plant, type ToolSpec } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import type { ConfigPath, RawMap } from '../model/protocol.ts';
import { nearest } from '../model/text.ts';
import { Refusal } from '../model/write.ts';

type Report = (path: ConfigPath, message: string, at?: 'key' | 'value') => void;

export function didYouMean(name: string, known: Iterable<string>): string {
  const [near] = nearest(name, known, 1);
  return near === undefined ? '' : `, did you mean ${near}?`;
}

/** The tools of the map with their points looked up; `declared` are all names, also of points that have a mistake. */
export function compileTools(raw: RawMap, plant: Plant, declared: ReadonlySet<string>, report: Report): ToolSpec[] {
  return Object.entries(raw).flatMap(([name, entry]): ToolSpec[] => {
    const tool = (typeof entry === 'object' && entry !== null ? entry : {}) as RawMap;
    const path: ConfigPath = ['tools', name];
    if ((GENERAL_TOOLS as readonly string[]).includes(name))
      report(path, `every bridge has a tool ${name} already; choose another name`, 'key');
    const point = (reference: unknown, at: ConfigPath, writable: boolean): Point | undefined => {
      const found = plant.points.get(String(reference));
      if (found === undefined && !declared.has(String(reference)))
        report(at, `no point ${String(reference)}${didYouMean(String(reference), declared)}`);
      if (found !== undefined && writable && found.write === undefined) report(at, `${found.name} is not writable: it has no \`write\``);
      return found;
    };
    const spec = { name, ...(tool.description !== undefined && { description: String(tool.description) }) };
    if (Array.isArray(tool.read)) {
      const points = tool.read.map((reference, i) => point(reference, [...path, 'read', i], false));
      return [{ ...spec, kind: 'read', points: points.filter(found => found !== undefined) }];
    }
    if (tool.write !== undefined) {
      const target = point(tool.write, [...path, 'write'], true);
      return target === undefined ? [] : [{ ...spec, kind: 'write', point: target }];
    }
    if (tool.toggle !== undefined) {
      const target = point(tool.toggle, [...path, 'toggle'], true);
      const twoStates =
        target === undefined || target.value.kind === 'bool' || (target.value.kind === 'enum' && target.value.labels.length === 2);
      if (!twoStates)
        report([...path, 'toggle'], `${target?.name} has more than two states; toggle needs a bool, or an enum of two labels`);
      return target === undefined ? [] : [{ ...spec, kind: 'toggle', point: target }];
    }
    if (Array.isArray(tool.steps)) {
      const steps = tool.steps.flatMap((step, i) =>
        Object.entries((step ?? {}) as RawMap).flatMap(([reference, value]) => {
          const at = [...path, 'steps', i, reference];
          const target = point(reference, at, true);
          if (target === undefined) return [];
          checkStep(target, value, message => report(at, message));
          return [{ point: target, value }];
        }),
      );
      return [{ ...spec, kind: 'steps', steps }];
    }
    return [];
  });
}

function checkStep(point: Point, value: unknown, report: (message: string) => void): void {
  try {
    const accepted = acceptValue(point, value);
    checkLimits(point, accepted);
    point.canonical?.(accepted);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    report(`${point.name}: ${error.message}`);
  }
}
