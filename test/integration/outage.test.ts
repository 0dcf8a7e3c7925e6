import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import type { MqttClient } from 'mqtt';
import { expect, onTestFinished, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { callTool, readSamples, TestBridge, temporaryFolder, until } from '../support/bridge.ts';
import { freePort } from '../support/free-port.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { startPlc } from '../support/plc.ts';
import { needsSystem } from '../support/system.ts';

const POINTS = 500;
const OUTAGE = 20_000;
const RECONNECT_MAX = 2000;
/** Packets in which the bridge asks for so many topics. */
const SUBSCRIPTIONS = 10;

interface Told {
  readonly value: number;
  readonly quality: string;
  readonly timestamp: string;
}

/** The way to the broker, shut while the broker is away: whoever listens is there before the bridge is back. */
class Gate {
  readonly port: number;
  private readonly broker: number;
  private server: Server | undefined;

  private constructor(port: number, broker: number) {
    this.port = port;
    this.broker = broker;
  }

  static async to(broker: number): Promise<Gate> {
    const gate = new Gate(await freePort(), broker);
    await gate.open();
    onTestFinished(() => gate.shut());
    return gate;
  }

  async open(): Promise<void> {
    const server = createServer(socket => {
      const inner = connect(this.broker, '127.0.0.1');
      for (const [one, other] of [
        [socket, inner],
        [inner, socket],
      ] as const) {
        one.pipe(other);
        one.on('error', () => other.destroy());
        one.on('close', () => other.destroy());
      }
    });
    this.server = server;
    await new Promise<void>(resolve => server.listen(this.port, '127.0.0.1', resolve));
  }

  shut(): void {
    this.server?.close();
  }
}

/** A thousand numbers that count up once a second: half of them come by the broker, half go there. */
test.skipIf(needsSystem('mosquitto'))(
  'broker killed for 20 s under 500 points at 1 Hz each way: bad with the reason, good again, nothing twice, nothing lost',
  async () => {
    const broker = await Mosquitto.start(['allow_anonymous true', 'max_queued_messages 0']);
    const gate = await Gate.to(broker.port);
    const unit = new MemoryUnit().set('holding', 0, ...new Array<number>(POINTS).fill(1));
    const plc = await startPlc(unit);
    const names = Array.from({ length: POINTS }, (_, i) => `p${i}`);
    const client = await (
      await TestBridge.start({
        connections: {
          plc: { type: 'modbus-tcp', host: '127.0.0.1', port: plc.port },
          broker: { type: 'mqtt', url: `mqtt://127.0.0.1:${gate.port}`, reconnect: { initial: '250ms', max: `${RECONNECT_MAX}ms` } },
        },
        devices: {
          plc: {
            connection: 'plc',
            poll_interval: '100ms',
            stale_after: '10s',
            points: Object.fromEntries(names.map((id, i) => [id, { holding: i }])),
          },
          field: { connection: 'broker', points: Object.fromEntries(names.map((id, i) => [id, { topic: `field/${i}` }])) },
        },
        publish: { connection: 'broker', points: 'plc.*', store: { path: join(temporaryFolder(), 'store') } },
      })
    ).client();
    const field = () =>
      readSamples(
        client,
        names.map(id => `field.${id}`),
      );
    const status = async () =>
      (await callTool(client, 'get_status')).structured as {
        connections: { name: string; messages?: Record<string, number>; last_error?: string }[];
        publish: Record<string, number>[];
      };

    let publisher: MqttClient | undefined;
    let sent = 0;
    let count = 1;
    const tick = setInterval(() => {
      count++;
      unit.set('holding', 0, ...new Array<number>(POINTS).fill(count));
      if (publisher?.connected === true)
        for (let i = 0; i < POINTS; i++) {
          publisher.publish(`field/${i}`, String(count), { qos: 1 });
          sent++;
        }
    }, 1000);
    onTestFinished(() => clearInterval(tick));

    /** What anybody who listens to the bridge hears, by topic. */
    const told = new Map<string, Told[]>();
    const listen = async (): Promise<void> => {
      const listener = await broker.client();
      listener.on('message', (topic, payload, { retain }) => {
        const one = JSON.parse(payload.toString()) as Told;
        const all = told.get(topic) ?? [];
        // As the listener comes, the broker hands it the newest that it may have had before.
        if (!retain || all.at(-1)?.timestamp !== one.timestamp) all.push(one);
        told.set(topic, all);
      });
      await listener.subscribeAsync('plant/#', { qos: 1 });
    };

    await listen();
    await until(
      () => broker.log.match(/Sending SUBACK to fieldbridge-/g)?.length,
      granted => granted === SUBSCRIPTIONS,
    );
    publisher = await broker.client();
    await until(field, samples => samples.every(sample => sample.quality === 'good'));
    // Between two seconds: what a broker has acknowledged and not handed on yet dies with it, and that is the broker's loss.
    await until(
      () => told.size === POINTS && count >= 3 && [...told.values()].every(all => all.at(-1)?.value === count),
      settled => settled,
    );

    gate.shut();
    broker.kill();
    const lost = await until(field, samples => samples.every(sample => sample.quality === 'bad'), 1000);
    expect(lost.every(sample => sample.reason === 'no_connection' && sample.value === null)).toBe(true);
    const killed = performance.now();
    await until(
      () => performance.now() - killed,
      gone => gone >= OUTAGE,
      OUTAGE + 1000,
    );
    expect((await status()).publish).toMatchObject([{ dropped: 0 }]);
    // Every point has moved about twenty times since.
    expect((await status()).publish[0]?.waiting).toBeGreaterThan(POINTS * (OUTAGE / 1000 - 3));

    await broker.run();
    await listen();
    await gate.open();
    const back = performance.now();
    // What is sent before the bridge listens again is not for the bridge.
    await until(
      () => broker.log.match(/Sending SUBACK to fieldbridge-/g)?.length,
      granted => granted === SUBSCRIPTIONS,
    );
    publisher = await broker.client();
    await until(field, samples => samples.every(sample => sample.quality === 'good'), RECONNECT_MAX + 3000);
    // Good with the first message after the session is back: the longest pause, and the publisher's own second.
    expect(performance.now() - back).toBeLessThan(RECONNECT_MAX + 1500);
    clearInterval(tick);
    const last = count;
    await until(status, one => one.publish[0]?.waiting === 0);
    await until(
      () => [...told.values()].every(all => all.at(-1)?.value === last),
      done => done,
    );

    // In: each message was handled once.
    const received = (await status()).connections.find(one => one.name === 'broker')?.messages?.received;
    expect(received).toBe(sent);
    // Out: of every point every value, in order, each once; one may come twice whose acknowledgement was lost with the broker.
    for (const [topic, all] of told) {
      const values = all.map(one => one.value);
      const distinct = [...new Set(values)];
      expect(distinct, topic).toEqual([...distinct].sort((a, b) => a - b));
      expect(distinct.length, `${topic} lost some of ${distinct.join(' ')}`).toBe((distinct.at(-1) ?? 0) - (distinct[0] ?? 0) + 1);
      expect(values.length - distinct.length, `${topic} had some twice: ${values.join(' ')}`).toBeLessThanOrEqual(1);
    }
    expect((await status()).publish).toMatchObject([{ dropped: 0, refused: 0 }]);
  },
  90_000,
);
