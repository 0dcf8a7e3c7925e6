import type { Field } from '../../control/field.ts';
import { parseDuration, showDuration } from '../../model/duration.ts';
import { object } from '../../model/json-schema.ts';
import type { Point } from '../../model/point.ts';
import type { History } from '../../store/history.ts';
import { findPoints, unknownText } from '../lookup.ts';
import { momentOf } from '../moment.ts';
import { VALUE } from '../schemas.ts';
import { type Aggregate, aggregated, type SeriesEntry, thinned } from '../series.ts';
import { ArgumentError, answer, isFieldText, readTool, type Tool } from '../tool.ts';

/** Entries of one answer. */
const MOST = 1000;
const AGGREGATES = ['raw', 'avg', 'min', 'max', 'last'] as const;

const OUTPUT = object(
  {
    point: { type: 'string' },
    unit: { type: 'string' },
    interval_ms: { type: 'integer', minimum: 1 },
    series: {
      type: 'array',
      items: object(
        {
          timestamp: { type: 'string', format: 'date-time', description: 'When the value began to hold, or the interval began' },
          value: VALUE,
          quality: { enum: ['good', 'uncertain', 'bad'], description: 'Whether the value can be relied upon' },
        },
        ['timestamp', 'value', 'quality'],
      ),
    },
  },
  ['point', 'series'],
);

export function readHistory(field: Field, history: History): Tool {
  return {
    definition: readTool(
      'read_history',
      `Past values of one point, from the last ${showDuration(history.keep)}: each change, or one value for each interval. A value holds until the next entry. Longer series are thinned so that lowest and highest values stay.`,
      object(
        {
          point: { type: 'string', maxLength: 200, description: 'Name such as boiler.pressure' },
          since: { type: 'string', maxLength: 40, description: 'RFC 3339, or how long ago, such as -15m; default: all there is' },
          until: { type: 'string', maxLength: 40, description: 'RFC 3339, or how long ago; default: now' },
          interval: { type: 'string', maxLength: 20, description: 'Length of one interval, such as 1m; with an aggregate other than raw' },
          aggregate: {
            enum: [...AGGREGATES],
            description:
              'raw: each change. avg (weighed by time), min, max, last: one value for each interval. Default: raw, or avg with an interval',
          },
        },
        ['point'],
      ),
      OUTPUT,
    ),
    call: args => {
      const { points, unknown } = findPoints(field.plant, [String(args.point)]);
      const [point] = points;
      if (unknown.length > 0 || point === undefined) throw new ArgumentError(unknownText(unknown));
      if (points.length > 1) throw new ArgumentError('point: one point is expected, not a glob of several');
      const now = Date.now();
      const until = Math.min(now, args.until === undefined ? now : momentOf(String(args.until), 'until', now));
      const since = Math.max(now - history.keep, args.since === undefined ? 0 : momentOf(String(args.since), 'since', now));
      if (since >= until) throw new ArgumentError(`since: expected a time before until, within the last ${showDuration(history.keep)}`);
      const how = howOf(point, args);
      const moments = history.between(point, since, until);
      if (how === 'raw') return Promise.resolve(told(point, thinned(moments, MOST)));
      const interval = intervalOf(args.interval, until - since);
      return Promise.resolve(told(point, aggregated(moments, since, until, interval, how), interval));
    },
  };
}

function howOf(point: Point, args: Readonly<Record<string, unknown>>): Aggregate | 'raw' {
  const isNumber = point.value.kind === 'number';
  const how = (args.aggregate ?? (args.interval === undefined ? 'raw' : isNumber ? 'avg' : 'last')) as Aggregate | 'raw';
  if (how === 'raw' && args.interval !== undefined)
    throw new ArgumentError('interval: raw values have none; leave it out, or choose another aggregate');
  if (how !== 'raw' && args.interval === undefined) throw new ArgumentError(`interval: ${how} needs the length of an interval, such as 1m`);
  if (!isNumber && how !== 'raw' && how !== 'last')
    throw new ArgumentError(`aggregate: ${point.name} is no number, so only raw and last are expected`);
  return how;
}

function intervalOf(value: unknown, span: number): number {
  const interval = parseDuration(value);
  if (interval === undefined || interval < 1)
    throw new ArgumentError(`interval: a duration such as 10s or 5m is expected, got ${JSON.stringify(value)}`);
  const least = Math.ceil(span / MOST);
  if (interval < least)
    throw new ArgumentError(
      `interval: at most ${MOST} intervals are told at once; for this span at least ${Math.ceil(least / 1000)}s is expected`,
    );
  return Math.round(interval);
}

function told(point: Point, series: readonly SeriesEntry[], interval?: number): ReturnType<typeof answer> {
  const unit = point.unit === undefined ? '' : ` ${point.unit}`;
  const numbers = series.flatMap(entry => (entry.quality !== 'bad' && typeof entry.value === 'number' ? [entry.value] : []));
  const [first, last] = [series[0], series.at(-1)];
  const range = numbers.length === 0 ? '' : `; lowest ${Math.min(...numbers)}${unit}, highest ${Math.max(...numbers)}${unit}`;
  const bad = series.filter(entry => entry.quality === 'bad').length;
  const text =
    first === undefined || last === undefined
      ? `Nothing is known of ${point.name} in that time.`
      : `${point.name}: ${series.length} entries from ${first.timestamp} to ${last.timestamp}${range}${bad === 0 ? '' : `; ${bad} of them without a value`}.`;
  return answer(
    {
      point: point.name,
      ...(point.unit !== undefined && { unit: point.unit }),
      ...(interval !== undefined && { interval_ms: interval }),
      series,
    },
    text,
    false,
    isFieldText(point),
  );
}
