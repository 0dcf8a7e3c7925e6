import { kinds, type McpReport, PlainClient, percentile } from './mcp-peers.ts';
import { Part } from './part.ts';
import { startPlc } from './plant.ts';

const SESSIONS = Number(process.env.SESSIONS ?? 1000);
const CHANGES = 20;
const ROUNDS = Number(process.env.SESSION_ROUNDS ?? 10_000);
const AT_ONCE = 20;
const URI = 'plant://d/fast';

/** Many sessions: what an idle one takes, how soon all hear of a change, and what is left when they have come and gone. */
export async function sessions(): Promise<void> {
  const { server, unit } = await startPlc(10);
  unit.set('holding', 60_000, 0);
  for (const kind of kinds) {
    const bridge = new Part<McpReport, string>('mcp-part.js', ['bridge', String(server.port), '10']);
    const endpoint = await bridge.ready;
    // What is made once, by the first client, is no session's.
    await someClients(endpoint, kind, 50);
    await settle();
    const before = await bridge.report();
    const clients = Array.from({ length: SESSIONS }, () => new PlainClient(endpoint, kind));
    await inTurns(clients, client => client.connect());
    await settle();
    const idle = await bridge.report();
    let told: () => void = () => undefined;
    const ends: (() => void)[] = [];
    await inTurns(clients, async client => void ends.push(await client.listen(URI, () => told())));
    await settle();
    const listening = await bridge.report();
    const each = (report: McpReport): string => `${((report.heap - before.heap) / SESSIONS / 1000).toFixed(1)} kB of heap`;
    process.stdout.write(
      kind === '2026-07-28'
        ? `${SESSIONS} listening streams of ${kind}: ${each(listening)} each\n`
        : `${SESSIONS} sessions of ${kind}: ${each(idle)} each while idle, ${each(listening)} with a stream that listens\n`,
    );

    const delays: number[] = [];
    for (let change = 1; change <= CHANGES; change++) {
      let left = SESSIONS;
      const all = new Promise<void>(resolve => {
        const began = performance.now();
        told = () => {
          delays.push(performance.now() - began);
          if (--left === 0) resolve();
        };
        unit.set('holding', 60_000, change);
      });
      await Promise.race([all, new Promise(resolve => setTimeout(resolve, 5000))]);
      told = () => undefined;
      if (left > 0) process.stdout.write(`change ${change} did not reach ${left} of ${SESSIONS}\n`);
      await new Promise(resolve => setTimeout(resolve, 100));
    }
    process.stdout.write(
      `a change reaches all ${SESSIONS}, polled every 20 ms and folded for 100 ms: p50 ${percentile(delays, 0.5).toFixed(0)} ms, p99 ${percentile(delays, 0.99).toFixed(0)} ms, last ${Math.max(...delays).toFixed(0)} ms\n`,
    );
    for (const end of ends) end();
    await inTurns(clients, client => client.end());

    await settle();
    const base = await bridge.report();
    await someClients(endpoint, kind, ROUNDS);
    await settle();
    const after = await bridge.report();
    process.stdout.write(
      `${ROUNDS} clients came and went: ${after.sessions} sessions, ${after.streams} streams, ${after.timers - base.timers} timers and ${after.sockets - base.sockets} sockets more than before; heap ${(base.heap / 1e6).toFixed(2)} MB before, ${(after.heap / 1e6).toFixed(2)} MB after, ratio ${(after.heap / base.heap).toFixed(3)}\n`,
    );
    bridge.kill();
  }
  await server.stop();
}

/** Clients that connect, listen, call and go: in order, or by just ending their stream. */
async function someClients(endpoint: string, kind: (typeof kinds)[number], count: number): Promise<void> {
  await inTurns(
    Array.from({ length: count }, () => new PlainClient(endpoint, kind)),
    async client => {
      await client.connect();
      const end = await client.listen(URI, () => undefined);
      await client.call('tools/call', { name: 'read_points', arguments: { points: ['d.fast'] } });
      end();
      await client.end();
    },
  );
}

async function inTurns<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

/** Connections that are kept for reuse close after five seconds. */
const settle = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 7000));
