/** A run of addresses [start, end) that one request has to bring whole. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** One read request and the spans that it answers. */
export interface Block<S extends Span> extends Span {
  readonly spans: readonly S[];
}

/** Milliseconds that a request costs, whatever it asks for, and that each register or bit adds. */
interface Cost {
  readonly request: number;
  readonly unit: number;
}

export interface ReadLimits {
  /** Most addresses in one request. */
  readonly maxCount: number;
  /** Most unused addresses in a row that a request may span; undefined leaves it to the cost. */
  readonly maxGap: number | undefined;
  /** Runs that no request may reach across; an empty run [a, a) forbids to cross from a-1 to a. */
  readonly barriers: readonly Span[];
  readonly cost: Cost;
}

/** Costs of a request for registers and for bits. */
export interface CostModel {
  readonly registers: Cost;
  readonly bits: Cost;
}

/** Modbus TCP: a round trip, beside which the length of the answer hardly counts. */
export const TCP_COST: CostModel = { registers: { request: 5, unit: 0.002 }, bits: { request: 5, unit: 0.0002 } };

/** Bytes of a read request and of its reply beside the data: unit, function, address, count, CRC; unit, function, count, CRC. */
const OVERHEAD_BYTES = 8 + 5;
/** Milliseconds that a device takes to think, where nothing is known of it. */
const TURNAROUND = 5;

/**
 * A serial line (MODBUS over Serial Line V1.02): every byte takes its time, and each frame is followed by silence.
 *
 * @param character milliseconds of one character
 * @param silence milliseconds between two frames
 */
export function serialCost(character: number, silence: number): CostModel {
  const request = OVERHEAD_BYTES * character + 2 * silence + TURNAROUND;
  return { registers: { request, unit: 2 * character }, bits: { request, unit: character / 8 } };
}

/** Whether a request over [start, end) reaches across a run that must not be crossed. */
export function crosses(start: number, end: number, barriers: readonly Span[]): boolean {
  return barriers.some(barrier => start < barrier.end && end > barrier.start && !(start >= barrier.start && end <= barrier.end));
}

/**
 * The cheapest requests that bring all spans: a dynamic programme over the spans in order of their start, in which
 * `best[i]` is the least cost of the first i. No span is ever split; one that breaks the limits by itself stands alone.
 */
export function planReads<S extends Span>(spans: readonly S[], limits: ReadLimits): Block<S>[] {
  const sorted = [...spans].sort((a, b) => a.start - b.start || a.end - b.end);
  const best = [0];
  const from = [0];
  for (let i = 1; i <= sorted.length; i++) {
    best[i] = Number.POSITIVE_INFINITY;
    // Grows the last request backwards, span by span: what is too long, or crosses a barrier, stays so.
    let end = 0;
    for (let j = i; j >= 1; j--) {
      const span = sorted[j - 1] as S;
      end = Math.max(end, span.end);
      if (end - span.start > limits.maxCount && j < i) break;
      if (j < i && crosses(span.start, end, limits.barriers)) break;
      // An earlier span that reaches further may still close the gap.
      if (j < i && limits.maxGap !== undefined && leavesGap(sorted.slice(j - 1, i), limits.maxGap)) continue;
      const cost = (best[j - 1] as number) + limits.cost.request + (end - span.start) * limits.cost.unit;
      if (cost < (best[i] as number)) {
        best[i] = cost;
        from[i] = j - 1;
      }
    }
  }
  const blocks: Block<S>[] = [];
  for (let i = sorted.length; i > 0; i = from[i] as number) {
    const members = sorted.slice(from[i], i);
    blocks.unshift({ start: (members[0] as S).start, end: Math.max(...members.map(span => span.end)), spans: members });
  }
  return blocks;
}

/** Whether more unused addresses than allowed lie in a row between spans in order of their start. */
function leavesGap(sorted: readonly Span[], maxGap: number): boolean {
  let reach = sorted[0]?.end ?? 0;
  for (const span of sorted) {
    if (span.start - reach > maxGap) return true;
    reach = Math.max(reach, span.end);
  }
  return false;
}
