import { TABLE_NAMES, TABLES, type Table } from '../drivers/modbus/address.ts';
import { type FoundUnit, scan as scanUnits } from '../drivers/modbus/scan.ts';

export interface RawScanOptions {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
  readonly baudRate: number;
  readonly parity: string;
  readonly rtu?: true;
  readonly units: string;
  readonly tables: string;
  readonly addresses: string;
  readonly timeout: number;
  readonly delay: number;
}

/** Looks for units and their addresses, and prints each as it is found. */
export async function scan(options: RawScanOptions): Promise<void> {
  if ((options.host === undefined) === (options.path === undefined))
    throw new Error('say where to look: either --host, or --path of a serial device');
  const type = options.path !== undefined ? 'modbus-rtu' : options.rtu === true ? 'modbus-rtu-over-tcp' : 'modbus-tcp';
  const raw =
    options.path !== undefined
      ? { path: options.path, baud_rate: options.baudRate, parity: options.parity }
      : { host: options.host, port: options.port ?? 502 };
  const abort = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => abort.abort());
  let count = 0;
  const progress = process.stderr.isTTY;
  const [from, to] = parseSpan(options.addresses);
  const units = parseUnits(options.units);
  await scanUnits(
    {
      type,
      raw: { ...raw, timeout: `${options.timeout}ms` },
      units,
      tables: parseTables(options.tables),
      from,
      to,
      timeout: options.timeout,
      delay: options.delay,
      signal: abort.signal,
      onProgress: text => {
        if (progress) process.stderr.write(`\r\u001b[K${text}`);
      },
    },
    unit => {
      count++;
      if (progress) process.stderr.write('\r\u001b[K');
      process.stdout.write(report(unit));
    },
  );
  if (progress) process.stderr.write('\r\u001b[K');
  process.stdout.write(`${count} of ${units.length} unit ids answered\n`);
  if (count === 0) process.exitCode = 1;
}

function report({ unit, identification, ranges }: FoundUnit): string {
  const head = `unit ${unit}${identification.length > 0 ? `: ${identification.join(', ')}` : ''}\n`;
  const lines = TABLES.flatMap(table => {
    const own = ranges.filter(range => range.table === table).map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`));
    return own.length === 0 ? [] : [`  ${TABLE_NAMES[table]}s: ${own.join(', ')}\n`];
  });
  return head + lines.join('');
}

/** `1-10,17` */
function parseUnits(text: string): number[] {
  const units = text.split(',').flatMap(part => {
    const [from, to] = parseSpan(part);
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
  if (units.some(unit => unit > 255)) throw new Error('--units: expected unit ids from 0 to 255');
  return units;
}

/** `0-199` */
function parseSpan(text: string): [number, number] {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text.trim());
  const [from, to] = [Number(match?.[1]), Number(match?.[2] ?? match?.[1])];
  if (match === null || to < from || to > 65_535) throw new Error(`${text}: expected a number, or first-last`);
  return [from, to];
}

function parseTables(text: string): Table[] {
  const names = text.split(',');
  const wrong = names.find(name => !(TABLES as readonly string[]).includes(name));
  if (wrong !== undefined) throw new Error(`--tables: expected some of ${TABLES.join(', ')}`);
  return names as Table[];
}
