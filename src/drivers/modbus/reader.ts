import { ExceptionResponse, ProtocolError, TransportError } from '../../model/errors.ts';
import { bad, type Reading, type Sample, sampleOf } from '../../model/sample.ts';
import { Refusal } from '../../model/write.ts';
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
  type Place,
  type PlannedBlock,
  type PlanSummary,
  planPoints,
  samePlace,
  summarise,
} from './plan.ts';
import type { Span } from './planner.ts';
import type { ModbusPoint } from './point.ts';
import { discoverModels } from './sunspec.ts';

/** How long something that the device refused is left alone, at the most. */
const RETRY_HOLES_AFTER = 10 * 60_000;
const FIRST_RETRY = 5000;
/** How long a SunSpec model that the device does not have is not looked for again. */
const RETRY_MODELS_AFTER = 60_000;
/** Pauses before asking a device again that said it was busy (exceptions 5 and 6). */
const BUSY_PAUSES = [50, 150, 400, 800];

/** Asks for a run of addresses. */
type Read = (table: Table, address: number, count: number) => Promise<readonly number[]>;

interface Words extends Span, Place {
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
  /** First addresses of the SunSpec models, once they were looked for. */
  private models: ReadonlyMap<number, number> | undefined;
  private modelsAt = 0;
  private discovery: Promise<ReadonlyMap<number, number>> | undefined;
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
    const read: Read = (table, address, count) => client.read(table, this.settings.unit, address, count);
    for (const block of this.plan([point])) {
      const base = await this.baseOf(block, read);
      if (base === undefined) continue;
      try {
        const words = await read(block.table, base + block.start, block.end - block.start);
        found.push({ table: block.table, model: block.model, start: block.start, end: block.end, words });
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
    block: Span & Place & { readonly spans: readonly Part[] },
    priority: Priority,
    signal: AbortSignal | undefined,
    found: Words[],
    failed: Map<string, ExceptionResponse>,
  ): Promise<boolean> {
    try {
      const read: Read = (table, address, count) => this.request(table, address, count, priority, signal);
      const base = await this.baseOf(block, read);
      if (base === undefined) return false;
      const words = await read(block.table, base + block.start, block.end - block.start);
      found.push({ table: block.table, model: block.model, start: block.start, end: block.end, words });
      for (const part of block.spans) for (const point of part.points) this.refused.delete(point.name);
      return true;
    } catch (error) {
      if (!(error instanceof ExceptionResponse) || concernsUnit(error)) throw error;
      const parts = distinct(block.spans.flatMap(leaves));
      // Exceptions 2 and 3 blame an address or a quantity: halves tell which.
      if (parts.length > 1 && (error.exception === 2 || error.exception === 3))
        return await this.bisect(block, parts, priority, signal, found, failed);
      for (const part of parts) {
        for (const point of part.points) {
          failed.set(point.name, error);
          if (error.exception === 2 || error.exception === 3) this.refuse(point, error);
        }
      }
      if (parts.length === 1 && error.exception === 2) this.learn(block, block.start, block.end);
      return false;
    }
  }

  private async bisect(
    place: Place,
    parts: readonly Part[],
    priority: Priority,
    signal: AbortSignal | undefined,
    found: Words[],
    failed: Map<string, ExceptionResponse>,
  ): Promise<boolean> {
    const sorted = [...parts].sort((a, b) => a.start - b.start || a.end - b.end);
    const middle = Math.ceil(sorted.length / 2);
    const [left, right] = [sorted.slice(0, middle), sorted.slice(middle)].map(half => ({
      table: place.table,
      model: place.model,
      spans: half,
      start: Math.min(...half.map(part => part.start)),
      end: Math.max(...half.map(part => part.end)),
    }));
    if (left === undefined || right === undefined) return false;
    const leftIsGood = await this.readBlock(left, priority, signal, found, failed);
    const rightIsGood = await this.readBlock(right, priority, signal, found, failed);
    // Both halves exist and the whole does not: what lies between them does not exist.
    if (leftIsGood && rightIsGood) this.learn(place, left.end, Math.max(left.end, right.start));
    return false;
  }

  private learn({ table, model }: Place, start: number, end: number): void {
    this.learnt = [...this.learnt, { table, model, start, end, until: performance.now() + RETRY_HOLES_AFTER }];
    this.plans = new WeakMap();
  }

  private refuse(point: ModbusPoint, exception: ExceptionResponse): void {
    const step = (this.refused.get(point.name)?.step ?? -1) + 1;
    const pause = Math.min(RETRY_HOLES_AFTER, FIRST_RETRY * 2 ** step);
    this.refused.set(point.name, { step, exception, until: performance.now() + pause });
  }

  /** The address that a point is written at. @throws Refusal where the device does not have its SunSpec model */
  addressOf(point: ModbusPoint): number {
    const base = point.model === undefined ? 0 : this.models?.get(point.model);
    if (base === undefined) throw new Refusal('address', `the device has no SunSpec model ${point.model}, so ${point.name} is nowhere`);
    return base + point.address;
  }

  /** Where the addresses of a place count from; undefined where the device has no such SunSpec model. */
  private async baseOf({ model }: Place, read: Read): Promise<number | undefined> {
    if (model === undefined) return 0;
    const now = performance.now();
    const isOld = this.models?.has(model) === false && now - this.modelsAt > RETRY_MODELS_AFTER;
    if (this.models === undefined || isOld) {
      this.discovery ??= discoverModels((address, count) => read('holding', address, count)).finally(() => {
        this.discovery = undefined;
      });
      this.models = await this.discovery;
      this.modelsAt = now;
    }
    return this.models.get(model);
  }

  /** One read request with its retries: after a missing reply, and after a pause where the device is busy. */
  private async request(
    table: Table,
    address: number,
    count: number,
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
              const words = await client.read(table, this.settings.unit, address, count);
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
      samePlace(words, { table: of.table, model: of.model }) && words.start <= of.address && words.end >= of.address + of.registers;
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
