import { planReads, type Span, TCP_COST } from '../src/drivers/modbus/planner.ts';

const MAX_REGISTERS = 125;
/** What Telegraf documents as the default of `optimization_max_register_fill`. */
const FILL = 50;

/**
 * A register list like those of three-phase meters: 120 values of two registers in blocks of phases, with holes within
 * the blocks and between them.
 */
function meter(): Span[] {
  const spans: Span[] = [];
  const blocks: readonly (readonly [number, number, number])[] = [
    // first register, values, registers from one value to the next
    [0, 27, 2],
    [70, 9, 2],
    [100, 6, 4],
    [200, 12, 2],
    [258, 3, 6],
    [334, 18, 2],
    [400, 20, 3],
    [520, 10, 8],
    [760, 15, 2],
  ];
  for (const [first, values, step] of blocks)
    for (let i = 0; i < values; i++) spans.push({ start: first + i * step, end: first + i * step + 2 });
  return spans;
}

/**
 * Telegraf's grouping by the definitions in its documentation of the Modbus input: fields in order of their address are
 * put into one request for as long as the gap to the next does not exceed the fill and the request stays within its
 * limit. `rearrange` fills nothing; `max_insert` fills up to `optimization_max_register_fill`.
 */
function telegraf(spans: readonly Span[], fill: number): Span[] {
  const requests: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const last = requests.at(-1);
    if (last !== undefined && span.start - last.end <= fill && span.end - last.start <= MAX_REGISTERS)
      requests[requests.length - 1] = { start: last.start, end: Math.max(last.end, span.end) };
    else requests.push(span);
  }
  return requests;
}

const registers = (requests: readonly Span[]): number => requests.reduce((sum, one) => sum + one.end - one.start, 0);

/** Requests and registers for one reading of a meter, beside those of Telegraf's rules at the same settings. */
export function planning(): Promise<void> {
  const spans = meter();
  process.stdout.write(`${spans.length} points of two registers\n`);
  for (const [name, fill] of [
    ['rearrange', 0],
    ['max_insert', FILL],
  ] as const) {
    const theirs = telegraf(spans, fill);
    const ours = planReads(spans, { maxCount: MAX_REGISTERS, maxGap: fill, barriers: [], cost: TCP_COST.registers });
    const verdict = ours.length <= theirs.length && registers(ours) <= registers(theirs) ? 'never more of either' : 'MORE';
    process.stdout.write(
      `${name}: ${theirs.length} requests, ${registers(theirs)} registers; here ${ours.length} requests, ${registers(ours)} registers: ${verdict}\n`,
    );
  }
  const started = performance.now();
  const rounds = 200;
  for (let i = 0; i < rounds; i++) planReads(spans, { maxCount: MAX_REGISTERS, maxGap: undefined, barriers: [], cost: TCP_COST.registers });
  process.stdout.write(`one plan takes ${((performance.now() - started) / rounds).toFixed(3)} ms\n`);
  return Promise.resolve();
}
