import { Server } from '@modelcontextprotocol/server';
import pino from 'pino';
import { Control } from '../src/control/control.ts';
import { Field } from '../src/control/field.ts';
import { Catalogue } from '../src/mcp/catalogue.ts';
import { Notices } from '../src/mcp/notices.ts';
import { SealedStates } from '../src/mcp/sealed-state.ts';
import { createServer } from '../src/mcp/server.ts';
import { Tally } from '../src/mcp/tally.ts';
import { Plant } from '../src/model/plant.ts';
import { History } from '../src/store/history.ts';
import { LiveValues } from '../src/store/live-values.ts';
import { kinds, type McpReport, PlainClient, percentile } from './mcp-peers.ts';
import { Part } from './part.ts';
import { startPlc } from './plant.ts';

const ROUNDS = 3000;
const WARM_UP = 500;
const POINTS = [10, 10_000];

/** tools/call of read_points over HTTP beside a bare server of the SDK that answers a constant, turn by turn. */
export async function calls(): Promise<void> {
  const { server } = await startPlc(65_000);
  const bare = new Part<McpReport, string>('mcp-part.js', ['bare']);
  for (const points of POINTS) {
    const bridge = new Part<McpReport, string>('mcp-part.js', ['bridge', String(server.port), String(points)]);
    const endpoints = [await bare.ready, await bridge.ready];
    await new Promise(resolve => setTimeout(resolve, 2000));
    for (const kind of kinds) {
      const clients = endpoints.map(endpoint => new PlainClient(endpoint, kind));
      for (const client of clients) await client.connect();
      const times: [number[], number[]] = [[], []];
      for (let round = 0; round < WARM_UP + ROUNDS; round++)
        for (const [i, client] of clients.entries()) {
          const began = performance.now();
          const text = await client.call('tools/call', { name: 'read_points', arguments: { points: ['d.p0'] } });
          if (round >= WARM_UP) times[i === 0 ? 0 : 1].push(performance.now() - began);
          if (!text.includes('"quality":"good"')) throw new Error(`no good sample: ${text}`);
        }
      const [floor, ours] = times.map(list => percentile(list, 0.5)) as [number, number];
      const [floor99, ours99] = times.map(list => percentile(list, 0.99)) as [number, number];
      process.stdout.write(
        `read_points in ${kind}, ${points} points in the plant: bare server p50 ${floor.toFixed(3)} ms (p99 ${floor99.toFixed(2)}), bridge ${ours.toFixed(3)} ms (p99 ${ours99.toFixed(2)}), ratio ${(ours / floor).toFixed(2)}\n`,
      );
    }
    bridge.kill();
  }
  bare.kill();
  await server.stop();
  instances();
}

/** What it costs to make the server that each request has of its own, beside one without handlers. */
function instances(): void {
  const plant = new Plant([], []);
  const live = new LiveValues(plant);
  const field = new Field(plant, live, new Map());
  const safety = { writes: 'disabled', readOnly: true, maxWritesPerMinute: 1, lockFile: '', confirmTimeout: 0, approver: 'any' } as const;
  const control = new Control(field, safety, undefined, pino({ level: 'silent' }));
  const catalogue = new Catalogue({ name: 'bench', version: '0' }, { field, control, publishers: [], history: new History(0, 0) }, 'run');
  const parts = { catalogue, log: pino({ level: 'silent' }), notices: new Notices(), states: new SealedStates(60_000), tally: new Tally() };
  const each = (make: () => unknown): number => {
    for (let i = 0; i < 20_000; i++) make();
    const began = performance.now();
    for (let i = 0; i < 50_000; i++) make();
    return (performance.now() - began) / 50;
  };
  const bare = each(() => new Server({ name: 'bare', version: '0' }, { capabilities: {} }));
  const ours = each(() => createServer(parts, 'modern', { name: 'bench', role: 'viewer' }));
  process.stdout.write(`an instance: bare ${bare.toFixed(1)} µs, the bridge's ${ours.toFixed(1)} µs, ratio ${(ours / bare).toFixed(1)}\n`);
  live.stop();
}
