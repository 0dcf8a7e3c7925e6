import { BrokerPart, startMosquitto } from './broker-peers.ts';

const TOPICS = 1000;
const RATE = 5000;
const SECONDS = Number(process.env.BROKER_SECONDS ?? 60);
const WARM_UP = 5;

/** 5,000 messages a second over 1,000 topics: the bridge's CPU time a message beside that of a bare subscriber, and its memory. */
export async function broker(): Promise<void> {
  const mosquitto = await startMosquitto();
  if (mosquitto === undefined) return;
  const start = (role: string): BrokerPart => new BrokerPart(role, mosquitto.url, TOPICS, RATE);
  const [bare, bridge] = [start('bare'), start('bridge')];
  await Promise.all([bare.ready, bridge.ready]);
  const publisher = start('publisher');
  await publisher.ready;

  await wait(WARM_UP);
  const before = await Promise.all([bare.report(), bridge.report()]);
  const heaps: number[] = [];
  for (let second = 0; second < SECONDS; second++) {
    await wait(1);
    heaps.push((await bridge.report()).heap_mb);
  }
  const after = await Promise.all([bare.report(), bridge.report()]);
  const sent = await publisher.report('stop');
  await wait(1);
  const [ofBare, ofBridge] = await Promise.all([bare.report(), bridge.report('stop')]);
  for (const part of [bare, bridge, publisher]) part.kill();
  mosquitto.stop();

  const each = (i: 0 | 1): number => ((after[i].cpu_ms - before[i].cpu_ms) * 1000) / (after[i].messages - before[i].messages);
  const quarter = Math.max(1, Math.floor(heaps.length / 4));
  const mean = (part: readonly number[]): number => part.reduce((sum, one) => sum + one, 0) / part.length;
  const [first, last] = [mean(heaps.slice(0, quarter)), mean(heaps.slice(-quarter))];
  const wrong = (sent.newest ?? []).filter((value, i) => ofBridge.newest?.[i] !== value).length;
  process.stdout.write(
    `${sent.messages} messages over ${TOPICS} topics in ${WARM_UP + SECONDS} s; the bare subscriber had ${ofBare.messages}, the bridge ${ofBridge.messages}\n`,
  );
  process.stdout.write(
    `CPU time a message: bare subscriber ${each(0).toFixed(1)} µs, bridge ${each(1).toFixed(1)} µs, ratio ${(each(1) / each(0)).toFixed(2)}\n`,
  );
  process.stdout.write(
    `bridge: heap in the first quarter ${first.toFixed(1)} MB, in the last ${last.toFixed(1)} MB, ratio ${(last / first).toFixed(3)}; resident ${ofBridge.rss_mb.toFixed(0)} MB\n`,
  );
  process.stdout.write(`points whose value is not the newest that was sent: ${wrong}\n`);
}

const wait = (seconds: number): Promise<void> => new Promise(resolve => setTimeout(resolve, seconds * 1000));
