import type { CompleteResult } from '@modelcontextprotocol/server';
import type { Plant } from '../model/plant.ts';

/** The specification's bound on one answer. */
const MOST = 100;

/** Completes `device` and `point` of the resource templates; a point that follows a device is one of that device's. */
export function complete(
  plant: Plant,
  uri: string,
  argument: { readonly name: string; readonly value: string },
  context: Readonly<Record<string, string>> = {},
): CompleteResult | undefined {
  if (uri !== 'plant://{device}' && uri !== 'plant://{device}/{point}') return undefined;
  const candidates =
    argument.name === 'device'
      ? [...plant.devices.keys()]
      : argument.name === 'point' && uri.includes('{point}')
        ? pointIds(plant, context.device)
        : [];
  return completionOf(candidates, argument.value);
}

/** Names that begin with what was typed, then those that hold it. */
export function completionOf(candidates: readonly string[], value: string): CompleteResult {
  const typed = value.toLowerCase();
  const starting = candidates.filter(name => name.startsWith(typed));
  const containing = candidates.filter(name => !name.startsWith(typed) && name.includes(typed));
  const values = [...starting, ...containing];
  return { completion: { values: values.slice(0, MOST), total: values.length, hasMore: values.length > MOST } };
}

function pointIds(plant: Plant, device: string | undefined): string[] {
  const points = [...plant.visible()].filter(point => device === undefined || device === '' || point.device === device);
  return [...new Set(points.map(point => point.id))];
}
