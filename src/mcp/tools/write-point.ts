import type { Control } from '../../control/control.ts';
import { object } from '../../model/json-schema.ts';
import type { Plant } from '../../model/plant.ts';
import type { Role } from '../../model/role.ts';
import { findPoints, unknownText } from '../lookup.ts';
import { givenValue, OUTCOME, WRITE_ARGUMENTS } from '../schemas.ts';
import { ArgumentError, type Tool, writeTool } from '../tool.ts';
import { outcomeAnswer, requestOf } from './writing.ts';

export function writePoint(plant: Plant, control: Control): Tool {
  return {
    definition: writeTool(
      'write_point',
      'Writes one point and reads it back. Acts on the real plant. list_points tells which points are writable and within which limits; every refusal says what would be accepted.',
      object(
        {
          point: { type: 'string', maxLength: 200, description: 'The point as device.point' },
          value: givenValue('The value in engineering units, a label, a list of labels, true or false'),
          ...WRITE_ARGUMENTS,
        },
        ['point', 'value', 'reason'],
      ),
      OUTCOME,
      true,
    ),
    writes: leastRole(plant),
    judgedByGates: ['value', 'expected'],
    call: async (args, call) => {
      const name = args.point as string;
      const point = plant.points.get(name);
      if (point === undefined) throw new ArgumentError(unknownText(findPoints(plant, [name.replace(/[*?]/g, '')]).unknown));
      return outcomeAnswer(
        await control.submit({ ...requestOf(args, call), point, value: args.value }, call.signal, call.confirmer),
        point,
      );
    },
  };
}

/** The least role by which anything at all may be written. */
function leastRole(plant: Plant): Role {
  return [...plant.points.values()].some(point => point.write?.role === 'operator') ? 'operator' : 'engineer';
}
