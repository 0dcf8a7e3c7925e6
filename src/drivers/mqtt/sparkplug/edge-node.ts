import { wordsOf } from '../../../model/errors.ts';
import type { Log } from '../../driver.ts';
import type { Message } from '../message.ts';
import type { BrokerSession } from '../session.ts';
import { REBIRTH, type SparkplugAddress, sparkplugTopic } from './address.ts';
import { decodeSparkplug, encodeSparkplug, type Metric, type OutgoingMetric, type SparkplugPayload } from './payload.ts';

/** Time between two requests for a rebirth: an edge node that lies in pieces is not to be shouted at. */
const REBIRTH_PAUSE = 2000;
/** Within it after its edge node's birth a device is born again, or it is not there. */
const BORN_WITHIN = 10_000;
/** Sequence numbers are one byte (Sparkplug 3.0, 6.4.4). */
const NUMBERS = 256;

/** A device of an edge node, or the node itself, as somebody who follows it sees it. */
export interface Follower {
  readonly device: string | undefined;
  /** Its metrics with names, types and first values. */
  onBirth(metrics: readonly NamedMetric[], at: number | undefined): void;
  /** @param doubtful messages were lost before this one */
  onData(metrics: readonly NamedMetric[], at: number | undefined, doubtful: boolean): void;
  onDeath(): void;
  /** Messages were lost: what is known may be old. */
  onDoubt(): void;
}

export type NamedMetric = Metric & { readonly name: string };

/** The edge nodes that devices of one connection belong to; each is followed once, since its numbers span its devices. */
export class EdgeNodes {
  private readonly nodes = new Map<string, EdgeNode>();
  private readonly session: BrokerSession;
  private readonly log: Log;

  constructor(session: BrokerSession, log: Log) {
    this.session = session;
    this.log = log;
  }

  of(address: SparkplugAddress): { readonly node: EdgeNode; readonly address: SparkplugAddress } {
    const key = `${address.group}/${address.edgeNode}`;
    const node = this.nodes.get(key) ?? new EdgeNode(this.session, address, this.log);
    this.nodes.set(key, node);
    return { node, address };
  }
}

/**
 * An edge node seen from a host application (Sparkplug 3.0, 5 and 6): births give names and types, data messages change
 * values, deaths end them, and a gap in the numbers asks for a new birth.
 */
export class EdgeNode {
  private readonly session: BrokerSession;
  private readonly address: SparkplugAddress;
  private readonly log: Log;
  private readonly followers: Follower[] = [];
  private readonly aliases = new Map<string, string>();
  private readonly bornDevices = new Set<string>();
  private born = false;
  private doubtful = false;
  private bdSeq: string | undefined;
  private seq = 0;
  private mourning: NodeJS.Timeout | undefined;
  private askedAt = Number.NEGATIVE_INFINITY;

  constructor(session: BrokerSession, address: SparkplugAddress, log: Log) {
    this.session = session;
    this.address = address;
    this.log = log;
    const topic = (kind: string, device?: string): string => sparkplugTopic(address.group, kind, address.edgeNode, device);
    session.subscribe(topic('NBIRTH'), message => this.hear(message, payload => this.onNodeBirth(payload)));
    session.subscribe(topic('NDATA'), message => this.hear(message, payload => this.onData(payload, undefined)));
    session.subscribe(topic('NDEATH'), message => this.hear(message, payload => this.onNodeDeath(payload)));
    session.subscribe(topic('DBIRTH', '+'), message => this.hear(message, (payload, device) => this.onDeviceBirth(payload, device ?? '')));
    session.subscribe(topic('DDATA', '+'), message => this.hear(message, (payload, device) => this.onData(payload, device)));
    session.subscribe(topic('DDEATH', '+'), message => this.hear(message, (payload, device) => this.onDeviceDeath(payload, device ?? '')));
    session.join({
      onConnected: () => this.askForRebirth('the bridge has just come'),
      onLost: () => {
        this.forget();
        this.askedAt = Number.NEGATIVE_INFINITY;
      },
    });
  }

  follow(follower: Follower): void {
    this.followers.push(follower);
  }

  isBorn(device: string | undefined): boolean {
    return device === undefined ? this.born : this.bornDevices.has(device);
  }

  commandTopic(device: string | undefined): string {
    const { group, edgeNode } = this.address;
    return sparkplugTopic(group, device === undefined ? 'NCMD' : 'DCMD', edgeNode, device);
  }

  /** With QoS 0 and never retained, as the specification has it; what became of a command, the data that follows tells. */
  async command(device: string | undefined, metric: OutgoingMetric): Promise<void> {
    const payload = encodeSparkplug({ timestamp: metric.timestamp, metrics: [metric] });
    await this.session.publish({ topic: this.commandTopic(device), payload, qos: 0, retain: false });
  }

  private hear(message: Message, then: (payload: SparkplugPayload, device: string | undefined) => void): void {
    // Births, data and deaths are never retained; one that is comes from nobody knows when.
    if (message.retained || message.oversize) return;
    const payload = decodeSparkplug(message.payload);
    if (payload === undefined) {
      this.session.counts.undecodable++;
      return;
    }
    then(payload, message.topic.split('/')[4]);
  }

  private onNodeBirth(payload: SparkplugPayload): void {
    this.forget();
    this.born = true;
    this.seq = payload.seq ?? 0;
    this.bdSeq = bdSeqOf(payload);
    const metrics = this.learn(payload);
    for (const one of this.followers) if (one.device === undefined) one.onBirth(metrics, payload.timestamp);
    this.mourning = setTimeout(() => {
      for (const one of this.followers) if (!this.isBorn(one.device)) one.onDeath();
    }, BORN_WITHIN);
    this.mourning.unref();
  }

  private onDeviceBirth(payload: SparkplugPayload, device: string): void {
    if (!this.isNext(payload)) return;
    this.bornDevices.add(device);
    const metrics = this.learn(payload);
    for (const one of this.followers) if (one.device === device) one.onBirth(metrics, payload.timestamp);
  }

  private onData(payload: SparkplugPayload, device: string | undefined): void {
    if (!this.isNext(payload)) return;
    if (device !== undefined && !this.bornDevices.has(device)) {
      if (this.followers.some(one => one.device === device)) this.askForRebirth(`data of ${device} came before its birth`);
      return;
    }
    const metrics = payload.metrics.flatMap(metric => this.named(metric) ?? []);
    if (metrics.length < payload.metrics.length) this.session.counts.undecodable++;
    for (const one of this.followers) if (one.device === device) one.onData(metrics, payload.timestamp, this.doubtful);
  }

  private onDeviceDeath(payload: SparkplugPayload, device: string): void {
    if (!this.isNext(payload)) return;
    this.bornDevices.delete(device);
    for (const one of this.followers) if (one.device === device) one.onDeath();
  }

  private onNodeDeath(payload: SparkplugPayload): void {
    // The will of an earlier session, delivered late, says nothing of this one.
    const bdSeq = bdSeqOf(payload);
    if (this.born && bdSeq !== undefined && this.bdSeq !== undefined && bdSeq !== this.bdSeq) return;
    this.forget();
    for (const one of this.followers) one.onDeath();
  }

  /** Whether the message may be looked at: its edge node was born. A gap before it is noticed here. */
  private isNext({ seq }: SparkplugPayload): boolean {
    if (!this.born) {
      this.askForRebirth('data came before a birth');
      return false;
    }
    const expected = (this.seq + 1) % NUMBERS;
    this.seq = seq ?? expected;
    if (seq === undefined || seq === expected) return true;
    this.session.counts.sequence_gaps++;
    if (!this.doubtful) for (const one of this.followers) one.onDoubt();
    this.doubtful = true;
    this.askForRebirth(`number ${seq} came where ${expected} was due`);
    return true;
  }

  private learn(payload: SparkplugPayload): NamedMetric[] {
    const metrics = payload.metrics.filter((metric): metric is NamedMetric => metric.name !== undefined);
    for (const { alias, name } of metrics) if (alias !== undefined) this.aliases.set(alias, name);
    return metrics;
  }

  private named(metric: Metric): NamedMetric | undefined {
    if (metric.name !== undefined && metric.name !== '') return metric as NamedMetric;
    const name = metric.alias === undefined ? undefined : this.aliases.get(metric.alias);
    return name === undefined ? undefined : { ...metric, name };
  }

  private forget(): void {
    clearTimeout(this.mourning);
    this.born = false;
    this.doubtful = false;
    this.bdSeq = undefined;
    this.aliases.clear();
    this.bornDevices.clear();
  }

  private askForRebirth(why: string): void {
    const now = performance.now();
    if (now - this.askedAt < REBIRTH_PAUSE) return;
    this.askedAt = now;
    this.log.info({ edge_node: `${this.address.group}/${this.address.edgeNode}` }, `asking for a rebirth: ${why}`);
    this.command(undefined, { name: REBIRTH, type: 'bool', value: true, timestamp: Date.now() }).catch((error: unknown) =>
      this.log.warn({}, `the request for a rebirth could not be sent: ${wordsOf(error)}`),
    );
  }
}

function bdSeqOf({ metrics }: SparkplugPayload): string | undefined {
  return metrics
    .find(metric => metric.name === 'bdSeq')
    ?.valueAs('uint64')
    ?.toString();
}
