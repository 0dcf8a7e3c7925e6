import type { CallToolResult } from '@modelcontextprotocol/server';
import type { Field } from '../../control/field.ts';
import { type JsonSchema, object } from '../../model/json-schema.ts';
import type { Point } from '../../model/point.ts';
import { type Found, findPoints, unknownText } from '../lookup.ts';
import { SAMPLES, UNKNOWN } from '../schemas.ts';
import type { Call } from '../served.ts';
import { ArgumentError, answer, isFieldText, presentAll, readTool, sentences, type Tool } from '../tool.ts';

const MAX_POINTS = 500;

export const READ_OUTPUT: JsonSchema = object({ samples: SAMPLES, unknown: UNKNOWN }, ['samples']);

export const FRESH: JsonSchema = { type: 'boolean', description: 'Reads the device now instead of giving the last poll' };

/** The samples of points, the last polled or read now, as an answer. */
export async function readAnswer(
  field: Field,
  points: readonly Point[],
  unknown: Found['unknown'],
  fresh: boolean,
  call: Call,
): Promise<CallToolResult> {
  if (!fresh) await field.firstPoll(points, call.signal);
  const samples = fresh ? await field.readNow(points, call.signal) : points.map(point => field.live.get(point));
  const text = [sentences(samples), unknownText(unknown)].filter(Boolean).join('\n');
  return answer(
    { samples: presentAll(samples), ...(unknown.length > 0 && { unknown }) },
    text,
    samples.length === 0,
    points.some(isFieldText),
  );
}

export function readPoints(field: Field): Tool {
  return {
    definition: readTool(
      'read_points',
      'Reads points by name or glob: value, unit, quality, age. A bad sample has no value: say so instead of guessing, and never use last_good as if it were the present value.',
      object(
        {
          points: {
            type: 'array',
            items: { type: 'string', maxLength: 200 },
            minItems: 1,
            maxItems: MAX_POINTS,
            description: 'Names such as boiler.pressure, or globs such as boiler.*',
          },
          fresh: FRESH,
        },
        ['points'],
      ),
      READ_OUTPUT,
    ),
    call: (args, call) => {
      const { points, unknown } = findPoints(field.plant, args.points as string[]);
      if (points.length > MAX_POINTS)
        throw new ArgumentError(`points: ${points.length} points match, and one call reads at most ${MAX_POINTS}; ask for fewer`);
      return readAnswer(field, points, unknown, args.fresh === true, call);
    },
  };
}
