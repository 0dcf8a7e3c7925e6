import { globMatcher, isGlob } from '../model/glob.ts';
import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import { escapeControls, nearest } from '../model/text.ts';

export interface Found {
  readonly points: readonly Point[];
  readonly unknown: readonly { readonly name: string; readonly suggestions: readonly string[] }[];
}

/** For how many unknown names of one call near ones are looked for: each look goes through all points. */
const MAX_SUGGESTED = 20;

/** Points by name or glob, each once, in the order asked; names that are none come back with near matches. */
export function findPoints(plant: Plant, names: readonly string[]): Found {
  const points = new Set<Point>();
  const unknown: Found['unknown'][number][] = [];
  for (const name of names) {
    const exact = plant.points.get(name);
    if (exact !== undefined) {
      points.add(exact);
      continue;
    }
    const isMatch = globMatcher(name);
    const matches = isGlob(name) ? [...plant.visible()].filter(point => isMatch(point.name)) : [];
    for (const point of matches) points.add(point);
    if (matches.length === 0)
      unknown.push({ name: escapeControls(name), suggestions: unknown.length < MAX_SUGGESTED ? suggestionsFor(plant, name) : [] });
  }
  return { points: [...points], unknown };
}

function suggestionsFor(plant: Plant, name: string): string[] {
  if (plant.devices.has(name)) return [`${name}.*`];
  const near = nearest(name, plant.points.keys());
  if (near.length > 0) return near;
  const byId = [...plant.visible()].filter(point => point.id === name || nearest(name, [point.id], 1).length > 0);
  return byId.slice(0, 3).map(point => point.name);
}

export function unknownText(unknown: Found['unknown']): string {
  return unknown
    .map(
      ({ name, suggestions }) =>
        `There is no point ${JSON.stringify(name)}${suggestions.length > 0 ? `; near it: ${suggestions.join(', ')}` : '; list_points shows what there is'}.`,
    )
    .join('\n');
}
