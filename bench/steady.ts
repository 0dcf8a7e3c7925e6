import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { startBridge, startPlc } from './plant.ts';

const POINTS = 200;
const INTERVAL = 100;
const SECONDS = Number(process.env.STEADY_SECONDS ?? 120);
const WARM_UP = 10;

interface Status {
  readonly devices: readonly { readonly cycles: number; readonly late_cycles: number; readonly cycle_ms: number }[];
}

/** 200 points every 100 ms with one subscriber: memory stays flat, and no cycle is late. */
export async function steady(): Promise<void> {
  const { server, unit } = await startPlc(POINTS);
  const bridge = await startBridge(server.port, POINTS, `${INTERVAL}ms`);
  const endpoint = await bridge.listen();
  bridge.start();
  const client = new Client({ name: 'bench', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  let heard = 0;
  client.setNotificationHandler('notifications/resources/updated', () => {
    heard++;
  });
  await client.subscribeResource({ uri: 'plant://d' });
  let value = 0;
  const mover = setInterval(() => unit.set('holding', value++ % POINTS, value & 0xffff), 20);

  const heap: number[] = [];
  for (let second = 0; second < SECONDS; second++) {
    await new Promise(resolve => setTimeout(resolve, 1000));
    if (second < WARM_UP) continue;
    globalThis.gc?.();
    heap.push(process.memoryUsage().heapUsed / 1e6);
  }
  clearInterval(mover);
  const { devices } = (await client.callTool({ name: 'get_status', arguments: {} })).structuredContent as unknown as Status;
  await client.close();
  await bridge.stop();
  await server.stop();

  const [first, last] = [heap.slice(0, heap.length / 4), heap.slice(-heap.length / 4)].map(
    part => part.reduce((sum, one) => sum + one, 0) / part.length,
  ) as [number, number];
  const [device] = devices;
  process.stdout.write(
    `${POINTS} points every ${INTERVAL} ms for ${SECONDS} s: ${device?.cycles} cycles of ${(SECONDS * 1000) / INTERVAL}, ${device?.late_cycles} late, the last took ${device?.cycle_ms} ms\n`,
  );
  process.stdout.write(`${heard} notifications heard\n`);
  const exact = globalThis.gc === undefined ? ' (without --expose-gc: with what is not collected yet)' : '';
  process.stdout.write(
    `heap in the first quarter ${first.toFixed(1)} MB, in the last ${last.toFixed(1)} MB, ratio ${(last / first).toFixed(3)}${exact}\n`,
  );
}
