import { globMatcher } from '../../model/glob.ts';
import { object } from '../../model/json-schema.ts';
import type { Plant } from '../../model/plant.ts';
import type { Point } from '../../model/point.ts';
import { nearest } from '../../model/text.ts';
import { pageOf } from '../page.ts';
import { ArgumentError, answer, readTool, type Tool } from '../tool.ts';

const PAGE = 100;

const OUTPUT = object(
  {
    points: {
      type: 'array',
      items: object(
        {
          name: { type: 'string' },
          description: { type: 'string' },
          unit: { type: 'string' },
          type: { type: 'string' },
          range: { type: 'array', items: { type: 'number' }, description: 'Plausible values' },
          writable: { type: 'boolean' },
          labels: { type: 'array', items: { type: 'string' } },
          min: { type: 'number' },
          max: { type: 'number' },
          max_step: { type: 'number' },
          role: { type: 'string', description: 'Who may write it' },
        },
        ['name', 'type', 'writable'],
      ),
    },
    nextCursor: { type: 'string' },
  },
  ['points'],
);

function entry(point: Point): object {
  const { write, value } = point;
  return {
    name: point.name,
    ...(point.description !== undefined && { description: point.description }),
    ...(point.unit !== undefined && { unit: point.unit }),
    type: point.type,
    ...(point.range !== undefined && { range: point.range }),
    writable: write !== undefined,
    ...('labels' in value && { labels: value.labels }),
    ...(write !== undefined && {
      ...(write.min !== undefined && { min: write.min }),
      ...(write.max !== undefined && { max: write.max }),
      ...(write.maxStep !== undefined && { max_step: write.maxStep }),
      role: write.role,
    }),
  };
}

/** Words are looked for in everything that is said of a point; each must be found. */
function searcher(query: string): (point: Point) => boolean {
  if (/[*?]/.test(query)) {
    const matches = globMatcher(query.trim());
    const isWhole = query.includes('.');
    return point => matches(point.name) || (!isWhole && matches(point.id));
  }
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return point => {
    const text = searchTextOf(point);
    return words.every(word => text.includes(word));
  };
}

/** A point never changes, so what is said of it is put together once. */
const searchTexts = new WeakMap<Point, string>();

function searchTextOf(point: Point): string {
  let text = searchTexts.get(point);
  if (text === undefined) {
    const { name, description, unit, value } = point;
    const parts = [name.replaceAll('_', ' '), name, description ?? '', unit ?? '', 'labels' in value ? value.labels.join(' ') : ''];
    text = parts.join(' ').toLowerCase();
    searchTexts.set(point, text);
  }
  return text;
}

export function listPoints(plant: Plant): Tool {
  return {
    definition: readTool(
      'list_points',
      'Lists the points of the plant: name, description, unit, type, range, whether it is writable, labels. Start here to learn the names that the other tools take.',
      object({
        device: {
          type: 'string',
          description: `One device only${plant.devices.size <= 20 ? `: ${[...plant.devices.keys()].join(', ')}` : ''}`,
        },
        query: {
          type: 'string',
          maxLength: 200,
          description: 'Words that must all occur in name, description, unit or labels; or a glob such as boiler.*',
        },
        writable: { type: 'boolean', description: 'Only points that can be written (true), or only those that can not (false)' },
        cursor: { type: 'string', description: 'nextCursor of the page before' },
      }),
      OUTPUT,
    ),
    call: args => {
      const device = args.device as string | undefined;
      if (device !== undefined && !plant.devices.has(device)) {
        const near = nearest(device, plant.devices.keys());
        throw new ArgumentError(
          `there is no device ${JSON.stringify(device)}; ${near.length > 0 ? `near it: ${near.join(', ')}` : `devices: ${[...plant.devices.keys()].slice(0, 20).join(', ')}`}`,
        );
      }
      const matches = args.query === undefined ? () => true : searcher(args.query as string);
      const found = [...plant.visible()].filter(
        point =>
          (device === undefined || point.device === device) &&
          (args.writable === undefined || args.writable === (point.write !== undefined)) &&
          matches(point),
      );
      const page = pageOf(found, PAGE, args.cursor as string | undefined);
      if (page === undefined) throw new ArgumentError('cursor: this is no cursor of this list; leave it out to start at the beginning');
      const points = page.items.map(entry);
      const more = page.nextCursor === undefined ? '' : ' Ask for more with nextCursor.';
      const names = page.items.map(
        point =>
          `${point.name}${point.unit === undefined ? '' : ` [${point.unit}]`}${point.description === undefined ? '' : `: ${point.description}`}`,
      );
      const text = found.length === 0 ? 'No point matches.' : `${found.length} points.${more}\n${names.join('\n')}`;
      return Promise.resolve(answer({ points, ...(page.nextCursor !== undefined && { nextCursor: page.nextCursor }) }, text));
    },
  };
}
