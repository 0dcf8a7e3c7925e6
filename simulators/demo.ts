import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { clientSnippets } from '../src/cli/client-snippets.ts';

/**
 * `npm run demo [-- HTTP_PORT [MODBUS_PORT]]`: the simulated boiler house and the bridge with its shipped map, each a process of its own, as they
 * would be in the field; then what to paste into a client, and a table of live values, read as any client reads them.
 */
const MAP = fileURLToPath(new URL('../../config/boiler-house.yaml', import.meta.url));
const MAIN = fileURLToPath(new URL('../src/main.js', import.meta.url));
const SIMULATOR = fileURLToPath(new URL('./main.js', import.meta.url));
const HTTP_PORT = Number(process.argv[2] ?? 8502);
const MODBUS_PORT = Number(process.argv[3] ?? 5020);
const REFRESH = 1000;
/** How often the table is printed where it can not be redrawn in place. */
const PLAIN_EVERY = 10;

interface ShownSample {
  readonly point: string;
  readonly value: unknown;
  readonly unit?: string;
  readonly quality: string;
  readonly reason?: string;
}

const children: ChildProcess[] = [];
const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-demo-'));

function stop(code: number): never {
  for (const child of children) child.kill('SIGTERM');
  rmSync(folder, { recursive: true, force: true });
  process.exit(code);
}

/** @returns what the pattern found in the program's output */
function start(name: string, args: readonly string[], ready: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    children.push(child);
    let output = '';
    const read = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-4000);
      const found = ready.exec(output)?.[1];
      if (found !== undefined) resolve(found);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('exit', code => {
      reject(new Error(`${name} ended with ${code}:\n${output}`));
    });
  });
}

/** What differs from the shipped map: the ports that were asked for, and an audit file that goes with the demo. */
function overlay(modbusPort: number): string {
  const file = join(folder, 'demo.yaml');
  const map = { connections: { plc: { port: modbusPort } }, http: { listen: `127.0.0.1:${HTTP_PORT}` }, safety: { audit: 'audit.jsonl' } };
  writeFileSync(file, JSON.stringify(map));
  return file;
}

function table(samples: readonly ShownSample[]): string {
  const rows = samples.map(sample => {
    const value = sample.value === null ? '—' : typeof sample.value === 'string' ? sample.value : JSON.stringify(sample.value);
    const quality = sample.reason === undefined ? sample.quality : `${sample.quality}: ${sample.reason}`;
    return [sample.point, value, sample.unit ?? '', quality] as const;
  });
  const width = (column: 0 | 1 | 2): number => Math.max(...rows.map(row => row[column].length));
  const [names, values, units] = [width(0), width(1), width(2)];
  return rows
    .map(([name, value, unit, quality]) => `  ${name.padEnd(names)}  ${value.padStart(values)} ${unit.padEnd(units)}  ${quality}`)
    .join('\n');
}

async function showValues(client: Client): Promise<void> {
  const place = process.stdout.isTTY;
  let lines = 0;
  for (let i = 0; ; i++) {
    const result = await client.callTool({ name: 'read_points', arguments: { points: ['boiler.*'] } });
    const { samples } = result.structuredContent as { samples: ShownSample[] };
    const text = `${new Date().toLocaleTimeString()}  live values (Ctrl+C ends the demo)\n${table(samples)}\n`;
    if (place && lines > 0) process.stdout.write(`\u001b[${lines}A\u001b[0J`);
    if (place || i % PLAIN_EVERY === 0) process.stdout.write(text);
    lines = text.split('\n').length - 1;
    await new Promise(resolve => setTimeout(resolve, REFRESH));
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop(0));
try {
  const modbusPort = await start('the simulator', [SIMULATOR, String(MODBUS_PORT)], /Modbus\/TCP on 127\.0\.0\.1:(\d+)/);
  const endpoint = await start('the bridge', [MAIN, 'run', MAP, overlay(Number(modbusPort))], /serving MCP at (http[^"\s]+)/);
  process.stdout.write(`The bridge serves MCP at ${endpoint}\n\nPaste one of these into your client:\n`);
  const usual = Number(modbusPort) === 5020 ? [MAP] : [MAP, join(folder, 'demo.yaml')];
  for (const snippet of clientSnippets({ endpoint, program: [process.execPath, MAIN], files: usual })) {
    process.stdout.write(`\n${snippet.client}, ${snippet.transport}: ${snippet.where}\n${snippet.text.replace(/^/gm, '  ')}\n`);
  }
  process.stdout.write('\n');
  const client = new Client({ name: 'demo', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  await showValues(client);
} catch (error) {
  process.stderr.write(`the demo could not go on: ${error instanceof Error ? error.message : String(error)}\n`);
  stop(1);
}
