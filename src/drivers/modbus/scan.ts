import { ExceptionResponse, ProtocolError, TransportError } from '../../model/errors.ts';
import type { RawMap } from '../../model/protocol.ts';
import { escapeControls } from '../../model/text.ts';
import { isBitTable, type Table } from './address.ts';
import { ModbusClient, noStatistics } from './client.ts';
import type { Span } from './planner.ts';
import { transportOf } from './transports.ts';

export interface ScanOptions {
  readonly type: string;
  /** The connection's entry as in a map. */
  readonly raw: RawMap;
  readonly units: readonly number[];
  readonly tables: readonly Table[];
  /** First and last address that are tried. */
  readonly from: number;
  readonly to: number;
  /** Milliseconds for one request, and of silence between two. */
  readonly timeout: number;
  readonly delay: number;
  readonly signal: AbortSignal;
  /** Tells what is being looked at, a few times a second at most. */
  onProgress(text: string): void;
}

export interface FoundUnit {
  readonly unit: number;
  /** Vendor, product, version, as far as the device tells (function 43/14). */
  readonly identification: readonly string[];
  /** Addresses that answer, last one included. */
  readonly ranges: readonly { readonly table: Table; readonly from: number; readonly to: number }[];
}

/** Reads at once, at the most, while looking for what is there. */
const BLOCK: Readonly<Record<'bits' | 'registers', number>> = { bits: 200, registers: 100 };

/**
 * Looks for units on a connection and for the addresses that they have. Reads only, one request at a time with silence
 * between, so that a bus in use is not disturbed.
 */
export async function scan(options: ScanOptions, found: (unit: FoundUnit) => void): Promise<void> {
  const statistics = noStatistics();
  const { newPort, peer } = transportOf(options.type, options.raw);
  const wire = { peer, newPort, timeout: options.timeout, requestDelay: options.delay };
  let client = await ModbusClient.connect(wire, statistics, () => undefined);
  const connected = async (): Promise<ModbusClient> => {
    if (!client.isOpen) client = await ModbusClient.connect(wire, statistics, () => undefined);
    return client;
  };
  for (const unit of options.units) {
    if (options.signal.aborted) break;
    options.onProgress(`unit ${unit}`);
    if (!(await answers(await connected(), unit))) continue;
    const identification = await identify(await connected(), unit);
    const ranges: FoundUnit['ranges'][number][] = [];
    for (const table of options.tables) {
      const spans = await addresses(connected, unit, table, options);
      for (const { start, end } of spans) ranges.push({ table, from: start, to: end - 1 });
    }
    found({ unit, identification, ranges });
  }
  client.close();
}

/** Whether anything at all comes back: also a no is an answer. */
async function answers(client: ModbusClient, unit: number): Promise<boolean> {
  try {
    await client.read('holding', unit, 0, 1);
    return true;
  } catch (error) {
    return error instanceof ExceptionResponse && error.exception !== 0x0a && error.exception !== 0x0b;
  }
}

async function identify(client: ModbusClient, unit: number): Promise<string[]> {
  try {
    return (await client.identify(unit)).map(escapeControls);
  } catch (error) {
    if (error instanceof ExceptionResponse || error instanceof TransportError || error instanceof ProtocolError) return [];
    throw error;
  }
}

/** The runs of addresses that answer, found by halving the blocks that do not. */
async function addresses(connected: () => Promise<ModbusClient>, unit: number, table: Table, options: ScanOptions): Promise<Span[]> {
  const size = BLOCK[isBitTable(table) ? 'bits' : 'registers'];
  const spans: Span[] = [];
  const add = (start: number, end: number): void => {
    const last = spans.at(-1);
    if (last?.end === start) spans[spans.length - 1] = { start: last.start, end };
    else spans.push({ start, end });
  };
  /** @returns false where the table is not worth asking any further */
  const look = async (start: number, end: number): Promise<boolean> => {
    if (options.signal.aborted) return false;
    options.onProgress(`unit ${unit}, ${table} ${start}-${end - 1}`);
    try {
      await (await connected()).read(table, unit, start, end - start);
      add(start, end);
      return true;
    } catch (error) {
      if (!(error instanceof ExceptionResponse)) {
        if (error instanceof TransportError || error instanceof ProtocolError) return false;
        throw error;
      }
      // The device does not know this function: none of its addresses.
      if (error.exception === 1) return false;
      if (end - start === 1) return true;
      const middle = start + Math.ceil((end - start) / 2);
      return (await look(start, middle)) && (await look(middle, end));
    }
  };
  for (let start = options.from; start <= options.to; start += size) {
    if (!(await look(start, Math.min(start + size, options.to + 1)))) break;
  }
  return spans;
}
