import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Block, crosses, planReads, type ReadLimits, type Span } from '../../../src/drivers/modbus/planner.ts';

const span = fc
  .tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 1, max: 5 }))
  .map(([start, width]) => ({ start, end: start + width }));
const limits: fc.Arbitrary<ReadLimits> = fc.record({
  maxCount: fc.integer({ min: 5, max: 40 }),
  maxGap: fc.option(fc.integer({ min: 0, max: 10 }), { nil: undefined }),
  barriers: fc.array(
    fc.tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 4 })).map(([start, width]) => ({ start, end: start + width })),
    { maxLength: 3 },
  ),
  cost: fc.record({ request: fc.integer({ min: 1, max: 20 }), unit: fc.integer({ min: 0, max: 3 }) }),
});

const costOf = (blocks: readonly Span[], { cost }: ReadLimits): number =>
  blocks.reduce((sum, block) => sum + cost.request + (block.end - block.start) * cost.unit, 0);

/** Whether one request may bring these spans; a single span always may. */
function isAllowed(spans: readonly Span[], { maxCount, maxGap, barriers }: ReadLimits): boolean {
  if (spans.length === 1) return true;
  const sorted = [...spans].sort((a, b) => a.start - b.start || a.end - b.end);
  const [start, end] = [sorted[0]?.start ?? 0, Math.max(...sorted.map(one => one.end))];
  if (end - start > maxCount || crosses(start, end, barriers)) return false;
  let reach = sorted[0]?.end ?? 0;
  for (const one of sorted) {
    if (maxGap !== undefined && one.start - reach > maxGap) return false;
    reach = Math.max(reach, one.end);
  }
  return true;
}

/** Every way to cut the sorted spans into requests. */
function cheapest(spans: readonly Span[], bounds: ReadLimits): number {
  const sorted = [...spans].sort((a, b) => a.start - b.start || a.end - b.end);
  let best = Number.POSITIVE_INFINITY;
  for (let cuts = 0; cuts < 2 ** (sorted.length - 1); cuts++) {
    const groups: Span[][] = [[]];
    for (const [i, one] of sorted.entries()) {
      groups.at(-1)?.push(one);
      if (i < sorted.length - 1 && (cuts >> i) & 1) groups.push([]);
    }
    if (!groups.every(group => isAllowed(group, bounds))) continue;
    best = Math.min(
      best,
      costOf(
        groups.map(group => ({ start: group[0]?.start ?? 0, end: Math.max(...group.map(one => one.end)) })),
        bounds,
      ),
    );
  }
  return best;
}

test('the plan costs what the cheapest of all plans costs', () => {
  fc.assert(
    fc.property(fc.array(span, { minLength: 1, maxLength: 12 }), limits, (spans, bounds) => {
      expect(costOf(planReads(spans, bounds), bounds)).toBe(cheapest(spans, bounds));
    }),
    {
      numRuns: 300,
      examples: [
        [
          // An earlier span that reaches further closes the gap between two later ones.
          [
            { start: 32, end: 33 },
            { start: 31, end: 34 },
            { start: 34, end: 35 },
            { start: 0, end: 1 },
          ],
          { maxCount: 5, maxGap: 0, barriers: [], cost: { request: 1, unit: 0 } },
        ],
      ],
    },
  );
});

test('every span is brought once and whole, within the limits', () => {
  fc.assert(
    fc.property(fc.array(span, { maxLength: 40 }), limits, (spans, bounds) => {
      const blocks: Block<Span>[] = planReads(spans, bounds);
      expect(blocks.flatMap(block => block.spans)).toHaveLength(spans.length);
      for (const block of blocks) {
        expect(isAllowed(block.spans, bounds)).toBe(true);
        for (const one of block.spans) expect(one.start >= block.start && one.end <= block.end).toBe(true);
      }
    }),
  );
});
