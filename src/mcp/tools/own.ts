import type { CallToolResult } from '@modelcontextprotocol/server';
import type { Control } from '../../control/control.ts';
import type { Field } from '../../control/field.ts';
import { object } from '../../model/json-schema.ts';
import type { ToolSpec } from '../../model/plant.ts';
import type { Point } from '../../model/point.ts';
import { ROLES, type Role } from '../../model/role.ts';
import { showValue } from '../../model/value.ts';
import type { WriteOutcome } from '../../model/write.ts';
import { OUTCOME, STEPS_OUTCOME, WRITE_ARGUMENTS } from '../schemas.ts';
import type { Call } from '../served.ts';
import { type Arguments, answer, describePoint, readTool, type Tool, titleOf, writeTool } from '../tool.ts';
import { FRESH, READ_OUTPUT, readAnswer } from './read-points.ts';
import { hasFieldText, isNotDone, outcomeAnswer, outcomeText, requestOf, writeDescription } from './writing.ts';

type Spec<K extends ToolSpec['kind']> = Extract<ToolSpec, { kind: K }>;

/** A tool that the map names. */
export function ownTool(spec: ToolSpec, field: Field, control: Control): Tool {
  switch (spec.kind) {
    case 'read':
      return ownRead(spec, field);
    case 'write':
      return ownWrite(spec, control);
    case 'toggle':
      return ownToggle(spec, control);
    case 'steps':
      return ownSteps(spec, control);
  }
}

const roleOf = (point: Point): Role => point.write?.role ?? 'operator';

function ownRead(spec: Spec<'read'>, field: Field): Tool {
  const list = spec.points.map(point => `${point.name} (${describePoint(point)})`).join('; ');
  const lead = (spec.description ?? titleOf(spec.name)).replace(/\.$/, '');
  return {
    definition: readTool(spec.name, `${lead}. Reads ${list}.`, object({ fresh: FRESH }), READ_OUTPUT),
    call: (args, call) => readAnswer(field, spec.points, [], args.fresh === true, call),
  };
}

function ownWrite(spec: Spec<'write'>, control: Control): Tool {
  const { point } = spec;
  return {
    definition: writeTool(
      spec.name,
      writeDescription(spec.description ?? titleOf(spec.name), point),
      object(
        {
          value: { ...point.writeSchema, description: [describePoint(point), point.writeSchema?.description].filter(Boolean).join('; ') },
          ...WRITE_ARGUMENTS,
        },
        ['value'],
      ),
      OUTCOME,
      true,
    ),
    writes: roleOf(point),
    judgedByGates: ['value', 'expected'],
    call: async (args, call) =>
      outcomeAnswer(await control.submit({ ...requestOf(args, call), point, value: args.value }, call.signal, call.confirmer), point),
  };
}

function ownToggle(spec: Spec<'toggle'>, control: Control): Tool {
  const { point } = spec;
  const states = point.value.kind === 'enum' ? point.value.labels : ['true', 'false'];
  return {
    definition: writeTool(
      spec.name,
      `${writeDescription(spec.description ?? titleOf(spec.name), point)} Say with \`to\` which state it should have: a bare toggle that is repeated undoes itself.`,
      object({
        to: {
          ...point.writeSchema,
          description: `The state it should have: ${states.join(' or ')}. Left out: the opposite of a fresh reading`,
        },
        ...WRITE_ARGUMENTS,
      }),
      OUTCOME,
      false,
    ),
    writes: roleOf(point),
    judgedByGates: ['to', 'expected'],
    call: async (args, call) => {
      const request = { ...requestOf(args, call), point, value: args.to };
      return outcomeAnswer(
        await control.submit(args.to === undefined ? { ...request, toggle: true } : request, call.signal, call.confirmer),
        point,
      );
    },
  };
}

function ownSteps(spec: Spec<'steps'>, control: Control): Tool {
  const list = spec.steps
    .map(
      ({ point, value }, i) => `${i + 1}. ${point.name} = ${showValue(value as never)}${point.unit === undefined ? '' : ` ${point.unit}`}`,
    )
    .join('; ');
  const lead = (spec.description ?? titleOf(spec.name)).replace(/\.$/, '');
  const { reason, request_id, dry_run } = WRITE_ARGUMENTS;
  return {
    definition: writeTool(
      spec.name,
      `${lead}. Writes one after the other, and stops at the first that is not written: ${list}. Acts on the real plant.`,
      object({ reason, request_id, dry_run }),
      STEPS_OUTCOME,
      true,
    ),
    writes: spec.steps
      .map(({ point }) => roleOf(point))
      .reduce((most, role) => (ROLES.indexOf(role) > ROLES.indexOf(most) ? role : most), 'operator' as Role),
    call: (args, call) => runSteps(spec, control, args, call),
  };
}

async function runSteps(spec: Spec<'steps'>, control: Control, args: Arguments, call: Call): Promise<CallToolResult> {
  // A call that is made again for an answer would do the steps before it again.
  const confirmer = call.confirmer?.isWithinCall === true ? call.confirmer : undefined;
  const outcomes: WriteOutcome[] = [];
  const units: (string | undefined)[] = [];
  for (const [i, { point, value }] of spec.steps.entries()) {
    const request = requestOf(args, call);
    // Each step has an id of its own, so that a repeat finds each one's outcome.
    const requestId = request.requestId === undefined ? {} : { requestId: `${request.requestId}#${i + 1}` };
    const outcome = await control.submit({ ...request, ...requestId, point, value }, call.signal, confirmer);
    outcomes.push(outcome);
    units.push(point.unit);
    if (outcome.status !== 'written' && outcome.status !== 'unchanged' && outcome.status !== 'simulated') break;
  }
  const last = outcomes.at(-1);
  const notDone = spec.steps.slice(outcomes.length).map(({ point }) => point.name);
  const status = outcomes.every(outcome => outcome.status === 'unchanged')
    ? 'unchanged'
    : last?.status === 'unchanged'
      ? 'written'
      : (last?.status ?? 'failed');
  const lines = outcomes.map((outcome, i) => `${i + 1}. ${outcomeText(outcome, units[i])}`);
  if (notDone.length > 0) lines.push(`Stopped there; not done: ${notDone.join(', ')}`);
  return answer(
    { status, outcomes, ...(notDone.length > 0 && { not_done: notDone }) },
    lines.join('\n'),
    isNotDone(status) || notDone.length > 0,
    outcomes.some((outcome, i) => spec.steps[i] !== undefined && hasFieldText(outcome, spec.steps[i].point)),
  );
}
