import { isBitTable, type Range, TABLES, type Table } from './address.ts';
import { type Block, type CostModel, crosses, planReads, type ReadLimits, type Span } from './planner.ts';
import type { ModbusPoint } from './point.ts';

export interface DeviceSettings {
  readonly name: string;
  readonly unit: number;
  /** The unit id is that of a broadcast on a line: it is written, and never answers. */
  readonly broadcast: boolean;
  readonly retries: number;
  readonly maxRegisters: number;
  readonly maxBits: number;
  readonly maxGap: number | undefined;
  readonly unreadable: readonly Range[];
}

/** One point's addresses, or those of a point and its scale factor together. */
export interface Part extends Span, Place {
  readonly points: readonly ModbusPoint[];
  /** The single points of a part that stands for several. */
  readonly parts: readonly Part[];
}

export type PlannedBlock = Block<Part> & Place;

/** What an address counts in: a table, or one SunSpec model of it. */
export interface Place {
  readonly table: Table;
  readonly model: number | undefined;
}

export const samePlace = (a: Place, b: Place): boolean => a.table === b.table && a.model === b.model;

/** Addresses that the device does not have, as far as is known until this time. */
export interface Hole extends Span, Place {
  readonly until: number;
}

export interface PlanSummary {
  readonly requests: number;
  readonly registers: number;
  readonly unused: number;
}

/** The requests that bring the points of one device, each with its scale factor where one request can bring both. */
export function planPoints(
  points: readonly ModbusPoint[],
  settings: DeviceSettings,
  cost: CostModel,
  holes: readonly Hole[],
): readonly PlannedBlock[] {
  const models = [...new Set(points.map(point => point.model))];
  const places = TABLES.flatMap(table => models.map(model => ({ table, model })));
  return places.flatMap(place => {
    const limits = limitsOf(place, settings, cost, holes);
    return planReads(partsOf(points, place, limits), limits).map(block => ({ ...block, ...place }));
  });
}

function limitsOf(place: Place, settings: DeviceSettings, cost: CostModel, holes: readonly Hole[]): ReadLimits {
  const bits = isBitTable(place.table);
  const own = place.model === undefined ? settings.unreadable.filter(range => range.table === place.table) : [];
  const declared = own.map(range => ({ start: range.from, end: range.to + 1 }));
  return {
    maxCount: bits ? settings.maxBits : settings.maxRegisters,
    maxGap: settings.maxGap,
    barriers: [...declared, ...holes.filter(run => samePlace(run, place))],
    cost: bits ? cost.bits : cost.registers,
  };
}

export function summarise(blocks: readonly PlannedBlock[]): PlanSummary {
  const registers = blocks.reduce((sum, block) => sum + block.end - block.start, 0);
  const used = new Set<string>();
  for (const leaf of blocks.flatMap(block => block.spans).flatMap(leaves))
    for (let a = leaf.start; a < leaf.end; a++) used.add(`${leaf.table}:${leaf.model}:${a}`);
  return { requests: blocks.length, registers, unused: registers - used.size };
}

export const leaves = (part: Part): readonly Part[] => (part.parts.length === 0 ? [part] : part.parts);

export const distinct = (parts: readonly Part[]): readonly Part[] => [...new Map(parts.map(part => [part.points[0]?.name, part])).values()];

/** The parts of a table to read: a point and its scale factor as one wherever one request can bring both. */
function partsOf(points: readonly ModbusPoint[], place: Place, limits: ReadLimits): Part[] {
  const parts: Part[] = [];
  const single = (point: ModbusPoint): Part => ({
    ...place,
    start: point.address,
    end: point.address + point.registers,
    points: [point],
    parts: [],
  });
  const isHere = (point: ModbusPoint): boolean => point.table === place.table && point.model === place.model;
  const seen = new Set<ModbusPoint>();
  const add = (point: ModbusPoint): void => {
    if (isHere(point) && !seen.has(point)) parts.push(single(point));
    seen.add(point);
  };
  for (const point of points) {
    const factor = point.factor;
    if (factor !== undefined && isHere(factor) && isHere(point)) {
      const both = [single(point), single(factor)].sort((a, b) => a.start - b.start) as [Part, Part];
      const start = both[0].start;
      const end = Math.max(both[0].end, both[1].end);
      const fits =
        end - start <= limits.maxCount &&
        both[1].start - both[0].end <= (limits.maxGap ?? Number.POSITIVE_INFINITY) &&
        !crosses(start, end, limits.barriers);
      if (fits) {
        parts.push({ ...place, start, end, points: [point, factor], parts: both });
        seen.add(point);
        continue;
      }
    }
    add(point);
    if (factor !== undefined) add(factor);
  }
  return parts;
}
