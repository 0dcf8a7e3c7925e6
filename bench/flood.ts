import { BrokerPart, startMosquitto } from './broker-peers.ts';

const TOPICS = Number(process.env.FLOOD_TOPICS ?? 1_000_000);
const PARTS = 10;

/** A million topics under one wildcard, each heard of once: what the bridge holds at the end beside what it held after a tenth. */
export async function flood(): Promise<void> {
  const mosquitto = await startMosquitto();
  if (mosquitto === undefined) return;
  const bridge = new BrokerPart('wildcard', mosquitto.url, TOPICS, 0);
  await bridge.ready;
  const publisher = new BrokerPart('flood', mosquitto.url, TOPICS, 0);
  await publisher.ready;
  const heaps: number[] = [];
  const start = performance.now();
  for (let part = 1; part <= PARTS; part++) {
    for (;;) {
      await new Promise(resolve => setTimeout(resolve, 200));
      const { messages, heap_mb } = await bridge.report();
      if (messages < (TOPICS / PARTS) * part) continue;
      heaps.push(heap_mb);
      break;
    }
  }
  const seconds = (performance.now() - start) / 1000;
  const { rss_mb, newest } = await bridge.report('stop');
  for (const part of [bridge, publisher]) part.kill();
  mosquitto.stop();
  const [first = 0, last = 0] = [heaps[0], heaps.at(-1)];
  process.stdout.write(
    `${TOPICS} topics in ${seconds.toFixed(0)} s: heap ${first.toFixed(1)} MB after a tenth, ${last.toFixed(1)} MB at the end, ratio ${(last / first).toFixed(3)}; resident ${rss_mb.toFixed(0)} MB\n`,
  );
  process.stdout.write(`the point has the value of topic ${newest?.[0]} of ${TOPICS}\n`);
}
