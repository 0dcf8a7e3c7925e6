import { ExceptionResponse, ProtocolError, TransportError } from '../../model/errors.ts';
import { bad, type Reading, type Sample, sampleOf } from '../../model/sample.ts';
import { isBitTable, type Table } from './address.ts';
import type { Priority } from './bus.ts';
import type { ModbusClient } from './client.ts';
import { scaleFactor } from './codec.ts';
import type { ModbusConnection } from './connection.ts';
import {
  type DeviceSettings,
  distinct,
  type Hole,
  leaves,
  type Part,
  type PlannedBlock,
  type PlanSummary,
  planPoints,
  summarise,
} from './plan.ts';
import type { Span } from './planner.ts';
import type { ModbusPoint } from './point.ts';

/** How long something that the device refused is left alone, at the most. */
const RETRY_HOLES_AFTER = 10 * 60_000;
const FIRST_RETRY = 5000;
/** Pauses before asking a device again that said it was busy (exceptions 5 and 6). */
const BUSY_PAUSES = [50, 150, 400, 800];

interface Words extends Span {
  readonly table: Table;
  readonly words: readonly number[];
}

interface Refused {
  readonly until: number;
  readonly step: number;
  readonly exception: ExceptionResponse;
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
    if (this.settings.broadcast) return points.map(point => sampleOf(point, bad('not_available')));
    const now = performance.now();
    const isRefused = (point: ModbusPoint | undefined): boolean => point !== undefined && (this.refused.get(point.name)?.until ?? 0) > now;
    const leaveOut = priority !== 'fresh' && this.refused.size > 0;
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
    if (this.settings.broadcast) return { sample: sampleOf(point, bad('not_available')), factor: undefined };
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
    return summarise(this.plan(points));
  }

  private plan(points: readonly ModbusPoint[]): readonly PlannedBlock[] {
    this.forgetOld();
    const blocks = this.plans.get(points) ?? planPoints(points, this.settings, this.connection.cost, this.learnt);
    this.plans.set(points, blocks);
    return blocks;
  }

  private forgetOld(): void {
    const now = performance.now();
    const before = this.learnt.length;
    this.learnt = this.learnt.filter(run => run.until > now);
    if (this.learnt.length < before) this.plans = new WeakMap();
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
    // A probe asks once: who is lost shall not take the line from those who are not.
    const retries = priority === 'probe' ? 0 : this.settings.retries;
    let silent = 0;
    let busy = 0;
    let holdOff = 0;
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
              holdOff = client.holdOff(this.settings.unit);
              throw error;
            }
          },
        });
      } catch (error) {
        const isBusy = error instanceof ExceptionResponse && (error.exception === 5 || error.exception === 6);
        const pause = isBusy ? BUSY_PAUSES[busy++] : undefined;
        // A line that garbled a reply is asked again as one that gave none.
        const isSilent = error instanceof ProtocolError || (error instanceof TransportError && error.kind === 'timeout');
        const again = isSilent && silent++ < retries && !this.connection.isLost;
        if (pause === undefined && !again) throw error;
        // Outside of the slot, so that the others go on.
        const wait = pause ?? holdOff;
        if (wait > 0) await new Promise(resolve => setTimeout(resolve, wait));
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

/** All at once, as far as the bus allows; where one fails, the others are waited for, and the first error is thrown. */
async function allOrFirstError(tasks: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(tasks);
  const failure = results.find(result => result.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
}
