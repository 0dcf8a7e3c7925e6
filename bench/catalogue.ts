import { PlainClient, percentile } from './mcp-peers.ts';
import { bridgeOf } from './plant.ts';

const DEVICES = 100;
const POINTS = 100;
const QUERIES = ['flow temperature pump 37', 'valve', 'd42.*', 'kW total 7', 'nothing like it'];

/** A map of 10,000 points: how long lists are, and how soon words find their points. */
export async function catalogue(): Promise<void> {
  const kinds = ['flow_temperature', 'return_temperature', 'pump_speed', 'valve_position', 'power_total'];
  const points = Object.fromEntries(
    Array.from({ length: POINTS }, (_, i) => {
      const kind = kinds[i % kinds.length] ?? '';
      return [`${kind}_${i}`, { holding: i, unit: 'kW', description: `${kind.replace('_', ' ')} of pump ${i}` }];
    }),
  );
  const names = Array.from({ length: DEVICES }, (_, i) => `d${i}`);
  const bridge = await bridgeOf({
    connections: { plc: { type: 'modbus-tcp', host: '127.0.0.1', port: 9 } },
    devices: Object.fromEntries(names.map((name, i) => [name, { connection: 'plc', unit_id: i + 1, poll_interval: '60s', points }])),
  });
  const client = new PlainClient(await bridge.listen(), '2026-07-28');
  const list = await client.call('tools/list', {});
  process.stdout.write(`tools/list with ${DEVICES * POINTS} points and no tools of the map: ${(list.length / 1000).toFixed(1)} kB\n`);
  const page = await client.call('resources/list', {});
  const { result } = JSON.parse(/^(?:data: )?(\{.*)$/m.exec(page)?.[1] ?? '{}') as {
    result: { resources: unknown[]; nextCursor?: string };
  };
  process.stdout.write(
    `resources/list: pages of ${result.resources.length}, ${(page.length / 1000).toFixed(1)} kB${result.nextCursor === undefined ? ', and no more' : ''}\n`,
  );
  for (const query of QUERIES) {
    const times: number[] = [];
    let found = '';
    for (let round = 0; round < 200; round++) {
      const began = performance.now();
      const text = await client.call('tools/call', { name: 'list_points', arguments: { query } });
      if (round >= 50) times.push(performance.now() - began);
      found = /(\d+|No) points?[. ]/.exec(text)?.[1] ?? '?';
    }
    process.stdout.write(
      `list_points ${JSON.stringify(query)} (${found} found) over HTTP: p50 ${percentile(times, 0.5).toFixed(1)} ms, p99 ${percentile(times, 0.99).toFixed(1)} ms\n`,
    );
  }
  await bridge.stop();
}
