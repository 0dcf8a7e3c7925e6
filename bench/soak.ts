import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { stringify } from 'yaml';
import { type Fault, FaultyWire } from '../simulators/faulty-wire.ts';
import { Exception, MemoryUnit, ModbusTcpServer } from '../simulators/modbus-server.ts';
import type { DeviceStatus } from '../src/drivers/driver.ts';
import type { PublicSample } from '../src/model/sample.ts';
import type { WriteOutcome } from '../src/model/write.ts';
import { Part } from './part.ts';
import { Random } from './random.ts';
import type { BridgeReport } from './soak-bridge.ts';

/**
 * `npm run soak [-- --minutes 20 --seed 1]`: a hundred devices of fifty points, fifty clients that come and go, and random faults. Nothing
 * may leak, no write may be missing in the record, no cycle may be late but where a fault was, and no value may be wrong.
 */
const DEVICES = 100;
const POINTS = 50;
const WRITABLE = 5;
const CLIENTS = 50;
const INTERVAL = 1000;
const TIMEOUT = 500;
/** Between two faults, on the average. */
const FAULT_EVERY = 1500;
/** Longest time between the end of a fault and the next poll in order: the last probe of a device that was lost, and its answer. */
const RECOVERY = 12_000;
const SAMPLE_EVERY = 5000;
const REVISIONS = ['2025-06-18', '2025-11-25', '2026-07-28'] as const;

const option = (name: string, byDefault: number): number => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? byDefault : Number(process.argv[at + 1]);
};
const minutes = option('minutes', process.env.CI === 'true' ? 5 : 20);
const seed = option('seed', 1);
const random = new Random(seed);
const sleep = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

interface Simulated {
  readonly name: string;
  readonly unit: MemoryUnit;
  readonly server: ModbusTcpServer;
  readonly wire: FaultyWire;
  /** When it was last in trouble because of us; monotonic milliseconds. */
  troubledUntil: number;
  isTroubled: boolean;
  lateSeen: number;
}

/** What must be nothing at the end. */
const wrong = { values: 0, late: 0, missing: 0, unrecorded: 0, errors: [] as string[] };
const counts = new Map<string, number>();
const count = (what: string, times = 1): void => void counts.set(what, (counts.get(what) ?? 0) + times);

const rightOf = (device: number, point: number): number => (device * 331 + point * 17) % 30_000;

async function startDevice(i: number): Promise<Simulated> {
  const unit = new MemoryUnit().set('holding', 0, ...Array.from({ length: POINTS }, (_, point) => rightOf(i, point)));
  const server = await new ModbusTcpServer(new Map([[1, unit]])).start();
  const wire = await new FaultyWire(server.port).start();
  return { name: `d${i}`, unit, server, wire, troubledUntil: 0, isTroubled: false, lateSeen: 0 };
}

function mapOf(devices: readonly Simulated[], folder: string): object {
  const points = Object.fromEntries(
    Array.from({ length: POINTS }, (_, i) => [`p${i}`, { holding: i, type: 'uint16', ...(i < WRITABLE && { write: {} }) }]),
  );
  return {
    bridge: { name: 'soak' },
    connections: Object.fromEntries(
      devices.map(({ name, wire }) => [
        name,
        { type: 'modbus-tcp', host: '127.0.0.1', port: wire.port, timeout: `${TIMEOUT}ms`, reconnect: { initial: '200ms', max: '2s' } },
      ]),
    ),
    devices: Object.fromEntries(devices.map(({ name }) => [name, { connection: name, poll_interval: `${INTERVAL}ms`, points }])),
    safety: { writes: 'enabled', max_writes_per_minute: 100_000, audit: join(folder, 'audit.jsonl'), audit_rotate: '5MB' },
    http: { listen: '127.0.0.1:0', limits: { requests_per_second: 5000, sessions: 100, streams: 200, streams_per_principal: 200 } },
    // Bounds that are reached within the first minutes: what grows after that, leaks.
    history: { keep: '1m' },
  };
}

const FAULTS: readonly (readonly [name: string, make: () => Fault])[] = [
  ['lost answers', () => ({ kind: 'drop' })],
  ['late answers', () => ({ kind: 'delay', ms: random.between(100, 900) })],
  ['resets in a frame', () => ({ kind: 'reset', after: Math.floor(random.between(0, 20)) })],
  ['half-open', () => ({ kind: 'half-open' })],
  ['cut frames', () => ({ kind: 'truncate', bytes: Math.floor(random.between(1, 12)) })],
  ['damaged headers', () => ({ kind: 'corrupt', at: random.of([0, 1, 2, 3, 4, 5, 6, 7, 8]) })],
  ['doubled answers', () => ({ kind: 'duplicate' })],
  ['slow bytes', () => ({ kind: 'throttle', ms: 1 })],
  ['no Modbus', () => ({ kind: 'replace', by: Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n') })],
];

/** One fault on one device, for a while. */
async function disturb(device: Simulated): Promise<void> {
  const { wire, unit } = device;
  device.isTroubled = true;
  const lasts = random.between(300, 6000);
  const which = random.next();
  if (which < 0.1) {
    count('faults: refused connections');
    const { port } = wire;
    await wire.stop();
    await sleep(lasts);
    await wire.start(port);
  } else if (which < 0.2) {
    count('faults: exceptions');
    const read = unit.read.bind(unit);
    const code = random.of([2, 4, 6, 10, 11]);
    unit.read = () => new Exception(code);
    await sleep(lasts);
    unit.read = read;
  } else {
    const [name, make] = random.of(FAULTS);
    count(`faults: ${name}`);
    wire.fault = make();
    await sleep(lasts);
    wire.fault = undefined;
  }
  device.troubledUntil = performance.now() + RECOVERY;
  device.isTroubled = false;
}

/** A client from its first word to its last: it reads, listens, writes, waits, and sometimes goes in the middle of it. */
async function live(endpoint: string, devices: readonly Simulated[], audits: Set<string>, until: number): Promise<void> {
  const revision = random.of(REVISIONS);
  const options =
    revision === '2026-07-28' ? { versionNegotiation: { mode: { pin: revision } } } : { supportedProtocolVersions: [revision] };
  const client = new Client({ name: 'soak', version: '1' }, options);
  client.setNotificationHandler('notifications/resources/updated', () => count('notifications heard'));
  // Who goes without a word takes its sockets with it.
  const gone = new AbortController();
  const fetchUntilGone = (url: string | URL, init?: RequestInit): Promise<Response> =>
    fetch(url, { ...init, signal: AbortSignal.any([gone.signal, ...(init?.signal ? [init.signal] : [])]) });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { fetch: fetchUntilGone }));
  count(`clients of ${revision}`);
  const end = Math.min(until, performance.now() + random.between(2000, 20_000));
  if (revision !== '2026-07-28') await client.subscribeResource({ uri: `plant://${random.of(devices).name}` });
  while (performance.now() < end) {
    const device = random.of(devices);
    const index = devices.indexOf(device);
    const act = random.next();
    if (act < 0.6) {
      const point = Math.floor(random.between(WRITABLE, POINTS));
      const { structuredContent } = await client.callTool({
        name: 'read_points',
        arguments: { points: [`${device.name}.p${point}`], fresh: act < 0.1 },
      });
      const [sample] = (structuredContent as { samples: PublicSample[] }).samples;
      count('reads');
      const isRight = sample?.quality === 'bad' ? sample.value === null : sample?.value === rightOf(index, point);
      if (!isRight) {
        wrong.values++;
        wrong.errors.push(`${device.name}.p${point} was read as ${JSON.stringify(sample)}`);
      }
    } else if (act < 0.85) {
      const point = Math.floor(random.between(0, WRITABLE));
      const args = { point: `${device.name}.p${point}`, value: Math.floor(random.between(0, 60_000)), reason: 'soak' };
      const outcome = (await client.callTool({ name: 'write_point', arguments: args })).structuredContent as unknown as WriteOutcome;
      count(`writes: ${outcome.status}`);
      audits.add(outcome.audit_id);
    } else if (act < 0.95) {
      await client.callTool({ name: 'wait_for', arguments: { points: [`${device.name}.*`], timeout: 1 } });
      count('waits');
    } else if (act < 0.98) await client.listTools();
    else {
      // Gone in the middle of a call.
      const leaving = new AbortController();
      const call = client.callTool(
        { name: 'wait_for', arguments: { points: [`${device.name}.*`], timeout: 30 } },
        { signal: leaving.signal },
      );
      setTimeout(() => leaving.abort(), 50);
      await call.catch(() => undefined);
      count('calls given up');
    }
    await sleep(random.between(50, 400));
  }
  if (random.next() < 0.8) await client.close();
  else {
    count('clients gone without a word');
    gone.abort();
  }
}

/** Slope of a line through the values, and how sure it is: one step each. */
function trend(values: readonly number[]): { readonly slope: number; readonly error: number } {
  const n = values.length;
  const meanX = (n - 1) / 2;
  const meanY = values.reduce((sum, one) => sum + one, 0) / n;
  const sxx = values.reduce((sum, _, i) => sum + (i - meanX) ** 2, 0);
  const slope = values.reduce((sum, one, i) => sum + (i - meanX) * (one - meanY), 0) / sxx;
  const rest = values.reduce((sum, one, i) => sum + (one - meanY - slope * (i - meanX)) ** 2, 0);
  return { slope, error: Math.sqrt(rest / Math.max(1, n - 2) / sxx) };
}

const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-soak-'));
const devices: Simulated[] = [];
for (let i = 0; i < DEVICES; i++) devices.push(await startDevice(i));
const map = join(folder, 'map.yaml');
writeFileSync(map, stringify(mapOf(devices, folder), { aliasDuplicateObjects: false }));
const part = new Part<BridgeReport, string>('soak-bridge.js', [map]);
const endpoint = await part.ready;
process.stdout.write(`${DEVICES} devices of ${POINTS} points, ${CLIENTS} clients, seed ${seed}, ${minutes} minutes\n`);

const watcher = new Client({ name: 'watcher', version: '1' });
await watcher.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
const statuses = async (): Promise<readonly DeviceStatus[]> =>
  ((await watcher.callTool({ name: 'get_status', arguments: {} })).structuredContent as unknown as { devices: DeviceStatus[] }).devices;
while ((await statuses()).some(({ cycles }) => cycles < 2)) await sleep(200);

const end = performance.now() + minutes * 60_000;
const audits = new Set<string>();
const clients = Array.from({ length: CLIENTS }, async () => {
  while (performance.now() < end) {
    try {
      await live(endpoint, devices, audits, end);
    } catch (error) {
      wrong.errors.push(`a client: ${error instanceof Error ? error.message : String(error)}`);
      await sleep(500);
    }
    await sleep(random.between(0, 1000));
  }
});
const faults = (async () => {
  const running = new Set<Promise<void>>();
  while (performance.now() < end - 20_000) {
    const device = random.of(devices);
    if (!device.isTroubled) {
      const one = disturb(device).finally(() => running.delete(one));
      running.add(one);
    }
    await sleep(random.between(0, 2 * FAULT_EVERY));
  }
  await Promise.all(running);
})();

const reports: BridgeReport[] = [];
let lateInFaults = 0;
async function look(): Promise<void> {
  for (const { name, late_cycles } of await statuses()) {
    const device = devices.find(one => one.name === name);
    if (device === undefined) continue;
    const more = late_cycles - device.lateSeen;
    device.lateSeen = late_cycles;
    if (device.isTroubled || performance.now() < device.troubledUntil + SAMPLE_EVERY) lateInFaults += more;
    else if (more > 0) {
      wrong.late += more;
      wrong.errors.push(`${name} was late ${more} times without a fault`);
    }
  }
  reports.push(await part.report());
}
while (performance.now() < end) {
  await sleep(SAMPLE_EVERY);
  await look();
}
await Promise.all([...clients, faults]);

// Everything comes back by itself.
await sleep(RECOVERY);
await look();
const last = await statuses();
const lost = last.filter(({ state }) => state !== 'polling').map(({ name }) => name);
if (lost.length > 0) wrong.errors.push(`${lost.join(', ')} did not come back`);
await watcher.close();
await sleep(2000);
const { unhandled } = await part.report('stop');

const main = fileURLToPath(new URL('../src/main.js', import.meta.url));
const verified = execFileSync(process.execPath, [main, 'audit', 'verify', map], { encoding: 'utf8' }).trim();
const files = execFileSync('sh', ['-c', `ls ${join(folder, 'audit.jsonl')}*`], { encoding: 'utf8' })
  .split('\n')
  .filter(name => /jsonl(\.\d+)?$/.test(name));
const recorded = new Set(files.flatMap(name => [...readFileSync(name, 'utf8').matchAll(/"audit_id":"([^"]+)"/g)].map(([, id]) => id)));
wrong.missing = [...audits].filter(id => !recorded.has(id)).length;
const intents = files.flatMap(name => readFileSync(name, 'utf8').match(/"kind":"intent"/g) ?? []).length;

const warm = reports.slice(Math.ceil(reports.length / 4));
const heap = trend(warm.map(report => report.heap));
const mean = warm.reduce((sum, report) => sum + report.heap, 0) / warm.length;
const grown = heap.slope * warm.length;
/** More than chance explains, and more than is worth a word. */
const leaks = heap.slope > 3 * heap.error && grown > 0.05 * mean;
const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
const rows: readonly (readonly [string, string | number])[] = [
  ['cycles', last.reduce((sum, { cycles }) => sum + cycles, 0)],
  ['late cycles, where a fault was', lateInFaults],
  ['late cycles, elsewhere', wrong.late],
  ...[...counts].sort(([a], [b]) => (a < b ? -1 : 1)),
  ['values that were wrong', wrong.values],
  ['writes that were answered', audits.size],
  ['of them missing in the record', wrong.missing],
  ['intents in the record', intents],
  ['the record', verified.split('\n').at(-1) ?? ''],
  ['heap after collection, first and last of the warm part', `${mb(warm[0]?.heap ?? 0)}, ${mb(warm.at(-1)?.heap ?? 0)}`],
  ['its trend over that time', `${mb(grown)} (±${mb(3 * heap.error * warm.length)}): ${leaks ? 'a leak' : 'none'}`],
  ['resident memory, first and last', `${mb(warm[0]?.rss ?? 0)}, ${mb(warm.at(-1)?.rss ?? 0)}`],
  ['lag of the event loop, p99 of the worst 5 s', `${Math.max(...warm.map(({ lag }) => lag.p99)).toFixed(1)} ms`],
  ['handles and timers, first and last', `${warm[0]?.resources}, ${warm.at(-1)?.resources}`],
  ['errors that nobody caught', unhandled.length],
];
const width = Math.max(...rows.map(([name]) => name.length));
for (const [name, value] of rows) process.stdout.write(`${name.padEnd(width)}  ${value}\n`);
for (const error of [...wrong.errors, ...unhandled].slice(0, 20)) process.stdout.write(`! ${error}\n`);
const isGood = !leaks && wrong.errors.length === 0 && unhandled.length === 0 && wrong.missing === 0;
process.stdout.write(isGood ? 'sound\n' : 'NOT SOUND\n');
rmSync(folder, { recursive: true });
process.exit(isGood ? 0 : 1);
