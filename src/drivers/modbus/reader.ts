import { ExceptionResponse, ProtocolError, TransportError } from '../../model/errors.ts';
import { bad, type Reading, type Sample, sampleOf } from '../../model/sample.ts';
import { isBitTable, type Range, TABLES, type Table } from './address.ts';
import type { Priority } from './bus.ts';
import type { ModbusClient } from './client.ts';
import { scaleFactor } from './codec.ts';
import type { ModbusConnection } from './connection.ts';
import { type Block, crosses, planReads, type ReadLimits, type Span } from './planner.ts';
import type { ModbusPoint } from './point.ts';

/** How long something that the device refused is left alone, at the most. */
const RETRY_HOLES_AFTER = 10 * 60_000;
const FIRST_RETRY = 5000;
/** Pauses before asking a device again that said it was busy (exceptions 5 and 6). */
const BUSY_PAUSES = [50, 150, 400, 800];

export interface DeviceSettings {
  readonly name: string;
  readonly unit: number;
  readonly retries: number;
  readonly maxRegisters: number;
  readonly maxBits: number;
  readonly maxGap: number | undefined;
  readonly unreadable: readonly Range[];
}

/** One point's addresses, or those of a point and its scale factor together. */
interface Part extends Span {
  readonly table: Table;
  readonly points: readonly ModbusPoint[];
  /** The single points of a part that stands for several. */
  readonly parts: readonly Part[];
}

interface Words extends Span {
  readonly table: Table;
  readonly words: readonly number[];
}

type PlannedBlock = Block<Part> & { readonly table: Table };

/** Addresses that the device does not have, as far as is known until this time. */
interface Hole extends Span {
  readonly table: Table;
  readonly until: number;
}

interface Refused {
  readonly until: number;
  readonly step: number;
  readonly exception: ExceptionResponse;
}

export interface PlanSummary {
  readonly requests: number;
  readonly registers: number;
  readonly unused: number;
}

/** Exceptions that concern the unit as a whole: a gateway can not reach it. */
export function concernsUnit(error: unknown): boolean {
  return error instanceof ExceptionResponse && (error.exception === 0x0a || error.exception === 0x0b);
}

/** Reads the points of one device with the fewest requests, and learns which addresses it does not have. */
export class DeviceReader {
  readonly settings: DeviceSettings;
  private readonly connection: ModbusConnection;
  private learnt: readonly Hole[] = [];
  private readonly refused = new Map<string, Refused>();
  /** Plans by the list of points that they are for; void when something was learnt or forgotten. */
  private plans = new WeakMap<readonly ModbusPoint[], readonly PlannedBlock[]>();

  constructor(settings: DeviceSettings, connection: ModbusConnection) {
    this.settings = settings;
    this.connection = connection;
  }

  /**
   * Reads the points and, where they have one, their scale factors in the same cycle. Points that the device refused
   * a short while ago are left out of a poll.
   *
   * @throws TransportError, ProtocolError, and ExceptionResponse where a gateway can not reach the unit
   */
  async read(points: readonly ModbusPoint[], priority: Priority, signal?: AbortSignal): Promise<Sample[]> {
    const now = performance.now();
    const isRefused = (point: ModbusPoint | undefined): boolean => point !== undefined && (this.refused.get(point.name)?.until ?? 0) > now;
    const leaveOut = priority === 'poll' && this.refused.size > 0;
    const asked = leaveOut ? points.filter(point => !isRefused(point) && !isRefused(point.factor)) : points;
    const blocks = this.plan(asked);
    const found: Words[] = [];
    const failed = new Map<string, ExceptionResponse>();
    await allOrFirstError(blocks.map(block => this.readBlock(block, priority, signal, found, failed)));
    const at = performance.now();
    const wall = Date.now();
    return asked.map(point => sampleOf(point, this.readingOf(point, found, failed), at, wall));
  }

  /** The same through an open client, inside a slot of the bus: one point, one request, or two with a far scale factor. */
  async readInSlot(client: ModbusClient, point: ModbusPoint): Promise<{ sample: Sample; factor: Reading | undefined }> {
    const found: Words[] = [];
    const failed = new Map<string, ExceptionResponse>();
    for (const block of this.plan([point])) {
      try {
        const words = await client.read(block.table, this.settings.unit, block.start, block.end - block.start);
        found.push({ table: block.table, start: block.start, end: block.end, words });
      } catch (error) {
        if (!(error instanceof ExceptionResponse)) throw error;
        for (const part of block.spans) for (const one of part.points) failed.set(one.name, error);
      }
    }
    const sample = sampleOf(point, this.readingOf(point, found, failed));
    return { sample, factor: point.factor === undefined ? undefined : this.readingOf(point.factor, found, failed) };
  }

  summary(points: readonly ModbusPoint[]): PlanSummary {
    const blocks = this.plan(points);
    const registers = blocks.reduce((sum, block) => sum + block.end - block.start, 0);
    const used = new Set<string>();
    for (const block of blocks)
      for (const part of block.spans)
        for (const leaf of leaves(part)) for (let a = leaf.start; a < leaf.end; a++) used.add(`${leaf.table}:${a}`);
    return { requests: blocks.length, registers, unused: registers - used.size };
  }

  private plan(points: readonly ModbusPoint[]): readonly PlannedBlock[] {
    this.forgetOld();
    const known = this.plans.get(points);
    if (known !== undefined) return known;
    const blocks = TABLES.flatMap(table => {
      const limits = this.limits(table);
      return planReads(partsOf(points, table, limits), limits).map(block => ({ ...block, table }));
    });
    this.plans.set(points, blocks);
    return blocks;
  }

  private forgetOld(): void {
    const now = performance.now();
    const before = this.learnt.length;
    this.learnt = this.learnt.filter(run => run.until > now);
    if (this.learnt.length < before) this.plans = new WeakMap();
  }

  private limits(table: Table): ReadLimits {
    const declared = this.settings.unreadable
      .filter(range => range.table === table)
      .map(range => ({ start: range.from, end: range.to + 1 }));
    return {
      maxCount: isBitTable(table) ? this.settings.maxBits : this.settings.maxRegisters,
      maxGap: this.settings.maxGap,
      barriers: [...declared, ...this.learnt.filter(run => run.table === table)],
      cost: isBitTable(table) ? this.connection.cost.bits : this.connection.cost.registers,
    };
  }

  private async readBlock(
    block: Span & { readonly table: Table; readonly spans: readonly Part[] },
    priority: Priority,
    signal: AbortSignal | undefined,
    found: Words[],
    failed: Map<string, ExceptionResponse>,
  ): Promise<boolean> {
    try {
      const words = await this.request(block, priority, signal);
      found.push({ table: block.table, start: block.start, end: block.end, words });
      for (const part of block.spans) for (const point of part.points) this.refused.delete(point.name);
      return true;
    } catch (error) {
      if (!(error instanceof ExceptionResponse) || concernsUnit(error)) throw error;
      const parts = distinct(block.spans.flatMap(leaves));
      // Exceptions 2 and 3 blame an address or a quantity: halves tell which.
      if (parts.length > 1 && (error.exception === 2 || error.exception === 3))
        return await this.bisect(block.table, parts, priority, signal, found, failed);
      for (const part of parts) {
        for (const point of part.points) {
          failed.set(point.name, error);
          if (error.exception === 2 || error.exception === 3) this.refuse(point, error);
        }
      }
      if (parts.length === 1 && error.exception === 2) this.learn(block.table, block.start, block.end);
      return false;
    }
  }

  private async bisect(
    table: Table,
    parts: readonly Part[],
    priority: Priority,
    signal: AbortSignal | undefined,
    found: Words[],
    failed: Map<string, ExceptionResponse>,
  ): Promise<boolean> {
    const sorted = [...parts].sort((a, b) => a.start - b.start || a.end - b.end);
    const middle = Math.ceil(sorted.length / 2);
    const [left, right] = [sorted.slice(0, middle), sorted.slice(middle)].map(half => ({
      table,
      spans: half,
      start: Math.min(...half.map(part => part.start)),
      end: Math.max(...half.map(part => part.end)),
    }));
    if (left === undefined || right === undefined) return false;
    const leftIsGood = await this.readBlock(left, priority, signal, found, failed);
    const rightIsGood = await this.readBlock(right, priority, signal, found, failed);
    // Both halves exist and the whole does not: what lies between them does not exist.
    if (leftIsGood && rightIsGood) this.learn(table, left.end, Math.max(left.end, right.start));
    return false;
  }

  private learn(table: Table, start: number, end: number): void {
    this.learnt = [...this.learnt, { table, start, end, until: performance.now() + RETRY_HOLES_AFTER }];
    this.plans = new WeakMap();
  }

  private refuse(point: ModbusPoint, exception: ExceptionResponse): void {
    const step = (this.refused.get(point.name)?.step ?? -1) + 1;
    const pause = Math.min(RETRY_HOLES_AFTER, FIRST_RETRY * 2 ** step);
    this.refused.set(point.name, { step, exception, until: performance.now() + pause });
  }

  /** One read request with its retries: after a missing reply, and after a pause where the device is busy. */
  private async request(
    block: Span & { readonly table: Table },
    priority: Priority,
    signal: AbortSignal | undefined,
  ): Promise<readonly number[]> {
    let silent = 0;
    let busy = 0;
    for (;;) {
      try {
        return await this.connection.bus.submit({
          priority,
          device: this.settings.name,
          ...(signal !== undefined && { signal }),
          run: async client => {
            try {
              const words = await client.read(block.table, this.settings.unit, block.start, block.end - block.start);
              this.connection.noteReply();
              return words;
            } catch (error) {
              if (error instanceof ExceptionResponse) this.connection.noteReply();
              if (error instanceof TransportError && error.kind === 'timeout') this.connection.noteTimeout(client, this.settings.unit);
              throw error;
            }
          },
        });
      } catch (error) {
        const isBusy = error instanceof ExceptionResponse && (error.exception === 5 || error.exception === 6);
        const pause = isBusy ? BUSY_PAUSES[busy++] : undefined;
        // A line that garbled a reply is asked again as one that gave none.
        const isSilent = error instanceof ProtocolError || (error instanceof TransportError && error.kind === 'timeout');
        const again = isSilent && silent++ < this.settings.retries && !this.connection.isLost;
        if (pause === undefined && !again) throw error;
        if (pause !== undefined) await new Promise(resolve => setTimeout(resolve, pause));
      }
    }
  }

  private readingOf(point: ModbusPoint, found: readonly Words[], failed: ReadonlyMap<string, ExceptionResponse>): Reading {
    const exception = failed.get(point.name);
    if (exception !== undefined) return bad('exception', { code: exception.exception, name: exception.exceptionName });
    const { factor } = point;
    const holds = (words: Words, of: ModbusPoint): boolean =>
      words.table === of.table && words.start <= of.address && words.end >= of.address + of.registers;
    const own = found.filter(words => holds(words, point));
    const source = own.find(words => factor !== undefined && holds(words, factor)) ?? own[0];
    if (source === undefined) return bad('not_available');
    const slice = source.words.slice(point.address - source.start, point.address - source.start + point.registers);
    if (isBitTable(point.table)) return { value: slice[0] === 1, quality: 'good' };
    if (factor === undefined) return point.codec.decode(slice);
    // The factor of the same response; where the limits kept the two apart, that of the same cycle.
    const scale = this.readingOf(factor, holds(source, factor) ? [source] : found, failed);
    if (scale.quality === 'bad') return scale;
    const linear = scaleFactor(scale.value);
    return linear === undefined ? bad('decode_error') : point.codec.decode(slice, linear);
  }
}

const leaves = (part: Part): readonly Part[] => (part.parts.length === 0 ? [part] : part.parts);

const distinct = (parts: readonly Part[]): readonly Part[] => [...new Map(parts.map(part => [part.points[0]?.name, part])).values()];

/** The parts of a table to read: a point and its scale factor as one wherever one request can bring both. */
function partsOf(points: readonly ModbusPoint[], table: Table, limits: ReadLimits): Part[] {
  const parts: Part[] = [];
  const single = (point: ModbusPoint): Part => ({
    table,
    start: point.address,
    end: point.address + point.registers,
    points: [point],
    parts: [],
  });
  const seen = new Set<ModbusPoint>();
  const add = (point: ModbusPoint): void => {
    if (point.table === table && !seen.has(point)) parts.push(single(point));
    seen.add(point);
  };
  for (const point of points) {
    const factor = point.factor;
    if (factor !== undefined && factor.table === table && point.table === table) {
      const both = [single(point), single(factor)].sort((a, b) => a.start - b.start) as [Part, Part];
      const start = both[0].start;
      const end = Math.max(both[0].end, both[1].end);
      const fits =
        end - start <= limits.maxCount &&
        both[1].start - both[0].end <= (limits.maxGap ?? Number.POSITIVE_INFINITY) &&
        !crosses(start, end, limits.barriers);
      if (fits) {
        parts.push({ table, start, end, points: [point, factor], parts: both });
        seen.add(point);
        continue;
      }
    }
    add(point);
    if (factor !== undefined) add(factor);
  }
  return parts;
}

/** All at once, as far as the bus allows; where one fails, the others are waited for, and the first error is thrown. */
async function allOrFirstError(tasks: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(tasks);
  const failure = results.find(result => result.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
}
