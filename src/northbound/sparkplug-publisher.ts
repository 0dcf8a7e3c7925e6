import type { Message } from '../drivers/mqtt/message.ts';
import type { BrokerSession } from '../drivers/mqtt/session.ts';
import { REBIRTH, sparkplugTopic } from '../drivers/mqtt/sparkplug/address.ts';
import { decodeSparkplug, encodeSparkplug, type OutgoingMetric } from '../drivers/mqtt/sparkplug/payload.ts';
import type { PublishSpec } from '../model/publish.ts';
import type { Sample } from '../model/sample.ts';
import { birthMetricOf, historicalMetricOf, metricOf, type Stored, storedOf } from './metrics.ts';
import { Outbox } from './outbox.ts';
import type { Publisher, PublisherContext, PublisherStatus } from './publisher.ts';

/** Changes within it go in one message of their device. */
const GATHER_FOR = 50;
/** Metrics in one message of what was stored. */
const MAX_METRICS = 200;

type SparkplugSpec = Extract<PublishSpec, { format: 'sparkplug' }>;

/**
 * The bridge as an edge node (Sparkplug 3.0, 5 and 6): its devices are the plant's, its death is the will of the session,
 * and what it could not send while the broker was away comes as historical values after the births.
 */
export class SparkplugPublisher implements Publisher {
  private readonly spec: SparkplugSpec;
  private readonly session: BrokerSession;
  private readonly context: PublisherContext;
  private readonly outbox: Outbox<Stored>;
  /** Points that each device's birth certificate has. */
  private readonly born = new Map<string, Set<string>>();
  private gathered: Sample[] = [];
  private timer: NodeJS.Timeout | undefined;
  private bdSeq = -1;
  private seq = 0;
  private isAlive = false;
  private published = 0;
  private refusedCommands = 0;

  constructor(spec: SparkplugSpec, session: BrokerSession, context: PublisherContext) {
    this.spec = spec;
    this.session = session;
    this.context = context;
    this.outbox = new Outbox(spec.store?.folder ?? '', spec.store?.maxBytes ?? 0);
    session.setWill(() => {
      this.bdSeq = (this.bdSeq + 1) % 256;
      return { topic: this.topic('NDEATH'), payload: this.death(), qos: 1, retain: false };
    });
    session.subscribe(this.topic('NCMD'), message => this.onCommand(message, true));
    session.subscribe(this.topic('DCMD', '+'), message => this.onCommand(message, false));
    session.join({
      onConnected: () => void this.onConnected(),
      onLost: () => {
        this.isAlive = false;
        this.born.clear();
      },
      onStop: () => this.onStop(),
    });
  }

  open(): Promise<void> {
    return this.outbox.open();
  }

  changed(sample: Sample): void {
    if (!this.spec.includes(sample.point)) return;
    if (!this.isAlive) {
      this.outbox.push(storedOf(sample));
      return;
    }
    this.gathered.push(sample);
    this.timer ??= setTimeout(() => this.tell(), GATHER_FOR);
  }

  status(): PublisherStatus {
    return {
      connection: this.spec.connection,
      format: 'sparkplug',
      published: this.published,
      waiting: this.outbox.waiting + this.gathered.length,
      stored_bytes: this.outbox.bytes,
      dropped: this.outbox.dropped,
      refused: 0,
      refused_commands: this.refusedCommands,
      ...(this.outbox.trouble !== undefined && { trouble: this.outbox.trouble }),
    };
  }

  private async onConnected(): Promise<void> {
    this.birth();
    this.isAlive = true;
    await this.sendStored();
  }

  /** NBIRTH, then a DBIRTH for each device that has something to say. */
  private birth(): void {
    const now = Date.now();
    this.seq = 0;
    this.born.clear();
    this.send('NBIRTH', undefined, [
      { name: 'bdSeq', type: 'int64', value: BigInt(this.bdSeq), timestamp: now },
      { name: REBIRTH, type: 'bool', value: false, timestamp: now },
    ]);
    const current = this.context.current();
    for (const device of new Set(current.map(sample => sample.point.device))) {
      const samples = current.filter(sample => sample.point.device === device);
      if (samples.some(sample => sample.quality !== 'bad')) this.bear(device, samples);
    }
  }

  private bear(device: string, samples: readonly Sample[]): void {
    this.born.set(device, new Set(samples.map(sample => sample.point.id)));
    this.send('DBIRTH', device, samples.map(birthMetricOf));
    this.published += samples.length;
  }

  /** What was gathered, in one message a device. */
  private tell(): void {
    this.timer = undefined;
    const samples = this.gathered;
    this.gathered = [];
    if (!this.isAlive || !this.session.connected) {
      for (const sample of samples) this.outbox.push(storedOf(sample));
      return;
    }
    for (const device of new Set(samples.map(sample => sample.point.device)))
      this.tellDevice(
        device,
        samples.filter(sample => sample.point.device === device),
      );
  }

  private tellDevice(device: string, samples: readonly Sample[]): void {
    const known = this.born.get(device);
    const current = this.context.current().filter(sample => sample.point.device === device);
    const isThere = current.some(sample => sample.quality !== 'bad');
    if (known === undefined) {
      if (isThere) this.bear(device, current);
    } else if (!isThere) {
      this.born.delete(device);
      this.send('DDEATH', device, []);
    } else if (samples.some(sample => !known.has(sample.point.id))) this.bear(device, current);
    else {
      this.send('DDATA', device, samples.map(metricOf));
      this.published += samples.length;
    }
  }

  /** What could not be sent is of the past now: it goes as such, and never looks like the present (6.4.17). */
  private async sendStored(): Promise<void> {
    for (;;) {
      const batch = this.isAlive && this.session.connected ? await this.outbox.peek() : undefined;
      if (batch === undefined || !this.isAlive) return;
      const entries = batch.entries.filter(entry => !entry.isDone);
      for (let i = 0; i < entries.length && this.isAlive; i += MAX_METRICS) {
        const part = entries.slice(i, i + MAX_METRICS);
        for (const device of new Set(part.map(({ record }) => record.device))) {
          const records = part.filter(({ record }) => record.device === device).map(({ record }) => record);
          this.sendHistory(device, records);
        }
        for (const entry of part) entry.isDone = true;
      }
      if (batch.entries.every(entry => entry.isDone)) this.outbox.finish(batch);
    }
  }

  private sendHistory(device: string, records: readonly Stored[]): void {
    const current = this.context.current().filter(sample => sample.point.device === device);
    // A device that is away must be born for its past to be told.
    const isAway = !this.born.has(device);
    if (isAway) this.bear(device, current);
    this.send('DDATA', device, records.map(historicalMetricOf));
    this.published += records.length;
    if (!isAway) return;
    this.born.delete(device);
    this.send('DDEATH', device, []);
  }

  private async onStop(): Promise<void> {
    clearTimeout(this.timer);
    this.tell();
    if (this.session.connected && this.isAlive) {
      this.isAlive = false;
      // A session that is ended in order leaves no will (6.4.19).
      await this.session.publish({ topic: this.topic('NDEATH'), payload: this.death(), qos: 1, retain: false }).catch(() => undefined);
    }
    this.isAlive = false;
    await this.outbox.close();
  }

  private onCommand(message: Message, isForNode: boolean): void {
    if (message.retained) {
      this.session.counts.retained_commands++;
      this.context.log.warn({ topic: message.topic }, 'a retained command was refused');
      return;
    }
    const payload = message.oversize ? undefined : decodeSparkplug(message.payload);
    if (payload === undefined) {
      this.session.counts.undecodable++;
      return;
    }
    const isRebirth = isForNode && payload.metrics.some(metric => metric.name === REBIRTH && metric.valueAs('bool') === true);
    this.refusedCommands += payload.metrics.filter(metric => !isForNode || metric.name !== REBIRTH).length;
    if (isRebirth && this.isAlive) {
      this.context.log.info({}, 'a rebirth was asked for');
      this.birth();
    }
  }

  private death(): Buffer {
    return encodeSparkplug({
      timestamp: Date.now(),
      metrics: [{ name: 'bdSeq', type: 'int64', value: BigInt(this.bdSeq), timestamp: Date.now() }],
    });
  }

  /** Births and data have QoS 0 and are never retained (6.4.19 to 6.4.24). */
  private send(kind: 'NBIRTH' | 'DBIRTH' | 'DDATA' | 'DDEATH', device: string | undefined, metrics: readonly OutgoingMetric[]): void {
    const payload = encodeSparkplug({ seq: this.seq, timestamp: Date.now(), metrics });
    this.seq = (this.seq + 1) % 256;
    // A session that is lost now brings new births anyway.
    this.session.publish({ topic: this.topic(kind, device), payload, qos: 0, retain: false }).catch(() => undefined);
  }

  private topic(kind: string, device?: string): string {
    return sparkplugTopic(this.spec.group, kind, this.spec.edgeNode, device);
  }
}
