/** One process of the bench `broker`: the publisher, a bare subscriber, or the bridge. Told what to do by its parent. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import mqtt from 'mqtt';
import type { Report } from './broker-peers.ts';
import { bridgeOf } from './plant.ts';

const [role = '', url = '', topicsText, rateText] = process.argv.slice(2);
const [topics, rate] = [Number(topicsText), Number(rateText)];

/** CPU time of collections that were asked for to see the heap, which no bridge asks for. */
let collecting = 0;

function report(messages: number, newest?: readonly number[]): Report {
  const before = process.cpuUsage();
  globalThis.gc?.();
  const { user, system } = process.cpuUsage(before);
  collecting += (user + system) / 1000;
  const { heapUsed, rss } = process.memoryUsage();
  return {
    cpu_ms: (before.user + before.system) / 1000 - collecting + (user + system) / 1000,
    messages,
    heap_mb: heapUsed / 1e6,
    rss_mb: rss / 1e6,
    ...(newest !== undefined && { newest }),
  };
}

const payloadOf = (value: number): string => JSON.stringify({ temperature: value, unit: 'C', battery: 87, link: { rssi: -61, snr: 9.5 } });

async function publisher(): Promise<void> {
  const client = await mqtt.connectAsync(url);
  const newest = new Array<number>(topics).fill(0);
  let sent = 0;
  const start = performance.now();
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - start) / 1000) * rate);
    for (; sent < due; sent++) {
      const topic = sent % topics;
      newest[topic] = sent;
      client.publish(`bench/${topic}`, payloadOf(sent));
    }
  }, 5);
  process.on('message', word => {
    if (word === 'stop') clearInterval(timer);
    process.send?.(report(sent, newest));
  });
}

/** Every topic once, as fast as the broker acknowledges. */
async function flood(): Promise<void> {
  const client = await mqtt.connectAsync(url);
  for (let i = 0; i < topics; i += 500)
    await Promise.all(
      Array.from({ length: Math.min(500, topics - i) }, (_, n) => client.publishAsync(`bench/${i + n}`, payloadOf(i + n + 1), { qos: 1 })),
    );
}

async function bare(): Promise<void> {
  const client = await mqtt.connectAsync(url);
  const newest = new Map<string, unknown>();
  let heard = 0;
  client.on('message', (topic, payload) => {
    heard++;
    newest.set(topic, (JSON.parse(payload.toString()) as { temperature: number }).temperature);
  });
  for (let i = 0; i < topics; i += 100)
    await client.subscribeAsync(
      Array.from({ length: 100 }, (_, n) => `bench/${i + n}`),
      { qos: 1 },
    );
  process.on('message', () => process.send?.(report(heard)));
}

function bridge(): Promise<void> {
  const points = Object.fromEntries(
    Array.from({ length: topics }, (_, i) => [
      `p${i}`,
      { topic: `bench/${i}`, value: 'payload.temperature', unit: '°C', stale_after: '60s' },
    ]),
  );
  return bridgeWith(
    points,
    Array.from({ length: topics }, (_, i) => `d.p${i}`),
  );
}

const wildcard = (): Promise<void> => bridgeWith({ any: { topic: 'bench/#', value: 'payload.temperature' } }, ['d.any']);

/** A bridge with these points, that tells the newest values of those named. */
async function bridgeWith(points: object, told: readonly string[]): Promise<void> {
  const running = await bridgeOf({
    connections: { broker: { type: 'mqtt', url } },
    devices: { d: { connection: 'broker', points } },
  });
  const endpoint = await running.listen();
  running.start();
  const client = new Client({ name: 'bench', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  const call = async <T>(name: string, args: Record<string, unknown> = {}): Promise<T> =>
    (await client.callTool({ name, arguments: args })).structuredContent as T;
  const connection = async () =>
    (await call<{ connections: { state: string; messages: { received: number } }[] }>('get_status')).connections[0];
  while ((await connection())?.state !== 'connected') await new Promise(resolve => setTimeout(resolve, 50));
  const newest = async (): Promise<number[]> => {
    const values: number[] = [];
    for (let i = 0; i < told.length; i += 500) {
      const { samples } = await call<{ samples: { value: number }[] }>('read_points', { points: told.slice(i, i + 500) });
      values.push(...samples.map(sample => sample.value));
    }
    return values;
  };
  process.on('message', async word => {
    const values = word === 'stop' ? await newest() : undefined;
    process.send?.(report((await connection())?.messages.received ?? 0, values));
  });
}

const roles: Readonly<Record<string, () => Promise<void>>> = { publisher, flood, bare, bridge, wildcard };
// The flood goes on while it is reported of.
const started = roles[role]?.();
if (role !== 'flood') await started;
await new Promise(resolve => setTimeout(resolve, 1000));
process.send?.('ready');
