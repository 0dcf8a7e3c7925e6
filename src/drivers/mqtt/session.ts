import { randomUUID } from 'node:crypto';
import { connect, type IPublishPacket, type MqttClient } from 'mqtt';
import { parseDuration, showDuration } from '../../model/duration.ts';
import { TransportError } from '../../model/errors.ts';
import type { RawMap } from '../../model/protocol.ts';
import { escapeControls } from '../../model/text.ts';
import { type ConnectionStatus, type Log, NoReply } from '../driver.ts';
import { Message } from './message.ts';
import { sessionOptions, type Will } from './options.ts';
import { isListening } from './probe.ts';
import { TopicIndex } from './topics.ts';

/** A session that lasts this long is no longer counted with the failed attempts before it. */
const STABLE_AFTER = 10_000;
/** A broker that does not answer must not hold up the end. */
const STOP_WITHIN = 2000;
/** Longest pause after another client has taken the session over. */
const MAX_TAKEOVER_PAUSE = 600_000;
/** For so long after a kept session is taken up again, messages may be those that waited at the broker. */
const BACKLOG_FOR = 5000;
/** Filters in one SUBSCRIBE; some brokers take few. */
const FILTERS_PER_PACKET = 50;
/** MQTT 5.0, 3.14.2.1: session taken over. */
const TAKEN_OVER = 0x8e;
const DISCONNECTS: ReadonlyMap<number, string> = new Map([
  [0x87, 'the broker ended the session: not authorized'],
  [0x8b, 'the broker is shutting down'],
  [0x8d, 'the broker ended the session: it heard nothing for longer than the keepalive'],
  [0x95, 'the broker ended the session: a packet was too large'],
  [0x97, 'the broker ended the session: a quota was exceeded'],
  [0x98, 'the broker ended the session by order of its administrator'],
]);

export interface Outgoing {
  readonly topic: string;
  readonly payload: string | Buffer;
  readonly qos: 0 | 1 | 2;
  readonly retain: boolean;
  readonly response?: { readonly topic: string; readonly correlation: Buffer };
}

/** Somebody who has to know when the session comes and goes. */
export interface Member {
  /** The session is there, and what was subscribed to is granted. */
  /** @param refused filters that the broker does not let the bridge have */
  onConnected?(refused: readonly string[]): void;
  onLost?(): void;
  /** While the session is still there. */
  onStop?(): Promise<void>;
}

/** What reached the bridge and was not what it should be, and what it sent. */
class MessageCounts {
  received = 0;
  sent = 0;
  too_large = 0;
  undecodable = 0;
  retained_commands = 0;
  /** Sparkplug: messages that were lost on the way, as their numbers tell. */
  sequence_gaps = 0;
}

/**
 * A session with a broker, shared by all that goes through it: connecting again with growing pauses, subscriptions,
 * and publishing with an end to the wait.
 */
export class BrokerSession {
  readonly counts = new MessageCounts();
  readonly timeout: number;
  readonly clientId: string;
  private readonly payloadLimit: number;
  private readonly raw: RawMap;
  private readonly name: string;
  private readonly log: Log;
  private readonly topics = new TopicIndex<(message: Message) => void>();
  private readonly members: Member[] = [];
  /** Those who wait for an acknowledgement. */
  private readonly waiting = new Set<() => void>();
  private willOf: (() => Will) | undefined;
  private client: MqttClient | undefined;
  private retryTimer: NodeJS.Timeout | undefined;
  private state: ConnectionStatus['state'] = 'connecting';
  private since = Date.now();
  private connectedAt = 0;
  private lastError: string | undefined;
  private attempt = 0;
  private takeovers = 0;
  private connects = 0;
  private stopped = false;
  /** The broker kept the session from the time before. */
  private resumed = false;

  constructor(name: string, raw: RawMap, log: Log) {
    this.name = name;
    this.raw = raw;
    this.log = log;
    this.timeout = parseDuration(raw.timeout) ?? 5000;
    this.payloadLimit = Number(raw.payload_limit ?? 65_536);
    // Two bridges with one map must not throw each other off.
    this.clientId = String(raw.client_id ?? `fieldbridge-${name}-${process.pid}-${randomUUID().slice(0, 4)}`);
  }

  /** Before the start: whoever wants messages says so here. */
  subscribe(filter: string, hear: (message: Message) => void): void {
    this.topics.add(filter, hear);
  }

  join(member: Member): void {
    this.members.push(member);
  }

  /** The message that the broker publishes when the session is lost; made anew for each connection. */
  setWill(willOf: () => Will): void {
    this.willOf = willOf;
  }

  get connected(): boolean {
    return this.client?.connected === true && this.state === 'connected';
  }

  /** Whether a session was had, or could not be. */
  get hasTried(): boolean {
    return this.connects > 0 || this.state === 'disconnected';
  }

  /** MQTT 5 knows answers to messages, and reasons for a refusal. */
  get version(): 4 | 5 {
    return Number(this.raw.protocol_version ?? 5) as 4 | 5;
  }

  open(): void {
    if (this.stopped || this.client !== undefined) return;
    const { raw } = this;
    const options = sessionOptions(raw, { clientId: this.clientId, version: this.version, timeout: this.timeout }, this.willOf?.());
    let client: MqttClient;
    try {
      client = connect(String(raw.url), options);
    } catch (error) {
      // A certificate that is none, for one, is noticed before anything is sent.
      const isNews = this.state !== 'disconnected';
      this.enter('disconnected');
      this.lastError = wordsOf(error);
      if (isNews) for (const member of this.members) member.onLost?.();
      this.retry(undefined, isNews);
      return;
    }
    this.client = client;
    let reason: string | undefined;
    let takenOver = false;
    client.on('connect', ({ sessionPresent }) => this.onConnected(client, sessionPresent));
    client.on('message', (topic, payload, packet) => this.onMessage(topic, payload, packet));
    client.on('error', error => {
      reason = wordsOf(error);
    });
    client.on('disconnect', packet => {
      takenOver = packet.reasonCode === TAKEN_OVER;
      const code = packet.reasonCode ?? 0;
      if (!takenOver)
        reason = DISCONNECTS.get(code) ?? `the broker ended the session with the reason 0x${code.toString(16).padStart(2, '0')}`;
    });
    client.on('close', () => this.onClosed(client, reason, takenOver));
  }

  /**
   * Resolves when the broker has acknowledged the message; with QoS 0, when it has left.
   *
   * @throws TransportError it was not sent, or the broker refused it
   * @throws NoReply it was sent, and nobody knows what became of it
   */
  async publish({ topic, payload, qos, retain, response }: Outgoing): Promise<void> {
    const { client } = this;
    if (client === undefined || !this.connected)
      throw new TransportError('no_connection', this.lastError ?? 'no connection to the broker', false);
    let timer: NodeJS.Timeout | undefined;
    let onLost: () => void = () => undefined;
    const wire = [`${topic} ${typeof payload === 'string' ? payload : payload.toString('hex')}`];
    try {
      const ended = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new NoReply(`the broker did not acknowledge within ${this.timeout} ms`, wire)), this.timeout);
        onLost = () => reject(new NoReply('the connection to the broker was lost', wire));
        this.waiting.add(onLost);
      });
      const packet = {
        qos,
        retain,
        ...(response !== undefined && { properties: { responseTopic: response.topic, correlationData: response.correlation } }),
      };
      await Promise.race([client.publishAsync(topic, payload, packet), ended]);
      this.counts.sent++;
    } catch (error) {
      if (error instanceof NoReply) throw error;
      const { code } = error as { code?: unknown };
      // A reason code from 0x80 on is the broker's own no (MQTT 5.0, 2.4).
      if (typeof code === 'number' && code >= 0x80)
        throw new TransportError('no_connection', `the broker refused the message: ${wordsOf(error)}`, false);
      throw new NoReply(wordsOf(error), wire);
    } finally {
      clearTimeout(timer);
      this.waiting.delete(onLost);
    }
  }

  status(): ConnectionStatus {
    return {
      name: this.name,
      type: 'mqtt',
      state: this.state,
      since: new Date(this.since).toISOString(),
      ...(this.lastError !== undefined && { last_error: this.lastError }),
      requests: this.counts.received,
      requests_per_second: 0,
      timeouts: 0,
      exceptions: 0,
      protocol_errors: this.counts.too_large + this.counts.undecodable,
      discarded_replies: this.counts.retained_commands,
      lost_requests: 0,
      connects: this.connects,
      queued: 0,
      messages: { ...this.counts },
    };
  }

  async stop(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    clearTimeout(this.retryTimer);
    // Whoever has something to say for the end says it now.
    await Promise.all(this.members.map(member => withEnd(member.onStop?.() ?? Promise.resolve())));
    this.enter('stopped');
    const { client } = this;
    if (client === undefined) return;
    client.removeAllListeners('message');
    // Not connected, there is nobody to say goodbye to.
    await client.endAsync(!client.connected).catch(() => undefined);
  }

  private onConnected(client: MqttClient, sessionPresent: boolean): void {
    this.connects++;
    this.connectedAt = performance.now();
    this.resumed = sessionPresent;
    this.enter('connected');
    this.log.info({}, 'connected to the broker');
    this.grant(client).then(
      refused => {
        if (client !== this.client) return;
        this.lastError =
          refused.length === 0 ? this.lastError : `the broker refuses to let the bridge subscribe to ${refused.slice(0, 5).join(', ')}`;
        if (refused.length > 0) this.log.warn({}, this.lastError ?? '');
        for (const member of this.members) member.onConnected?.(refused);
      },
      (error: unknown) => {
        if (client === this.client) this.lastError = wordsOf(error);
      },
    );
  }

  /** @returns the filters that the broker does not let the bridge have */
  private async grant(client: MqttClient): Promise<string[]> {
    const refused: string[] = [];
    const ask = async (filters: readonly string[]): Promise<void> => {
      try {
        await client.subscribeAsync([...filters], { qos: 1 });
      } catch (error) {
        if (!client.connected) throw error;
        const [only] = filters;
        if (filters.length > 1) for (const filter of filters) await ask([filter]);
        else if (only !== undefined) {
          refused.push(only);
          // What it stood for may be allowed one by one.
          const narrower = this.topics.coveredBy(only);
          if (narrower.length > 0) await ask(narrower);
        }
      }
    };
    const filters = this.topics.all;
    for (let i = 0; i < filters.length; i += FILTERS_PER_PACKET) await ask(filters.slice(i, i + FILTERS_PER_PACKET));
    return refused;
  }

  private onClosed(client: MqttClient, reason: string | undefined, takenOver: boolean): void {
    if (client !== this.client) return;
    client.removeAllListeners();
    client.on('error', () => undefined);
    client.end(true);
    this.client = undefined;
    const wasConnected = this.state === 'connected';
    const isNews = this.state !== 'disconnected';
    for (const onLost of this.waiting) onLost();
    if (this.stopped) return;
    const lasted = wasConnected ? performance.now() - this.connectedAt : 0;
    if (lasted > STABLE_AFTER) this.attempt = 0;
    if (lasted > Math.max(STABLE_AFTER, this.takeoverPause(this.takeovers - 1))) this.takeovers = 0;
    this.enter('disconnected');
    this.lastError = reason ?? 'the broker closed the connection';
    if (isNews) for (const member of this.members) member.onLost?.();
    if (takenOver || !wasConnected || reason !== undefined) this.retry(takenOver ? 'told' : undefined, isNews);
    // Not every broker says why it closes a session; one that still takes connections has no trouble of its own.
    else void isListening(String(this.raw.url)).then(isThere => this.retry(isThere ? 'seen' : undefined, isNews));
  }

  /** @param takenOver by another client, as the broker has told, or as far as can be seen */
  private retry(takenOver: 'told' | 'seen' | undefined, isNews: boolean): void {
    if (this.stopped) return;
    const { initial, max } = this.pauses;
    const jitter = 0.75 + Math.random() * 0.25;
    const pause =
      (takenOver !== undefined ? this.takeoverPause(this.takeovers++) : Math.min(max, initial * 2 ** Math.min(this.attempt++, 20))) *
      jitter;
    const how =
      takenOver === 'told'
        ? 'another client has taken the session over'
        : 'the broker is there, and has ended the session: another client seems to have taken it over';
    if (takenOver !== undefined)
      this.lastError = `${how}. It uses the client id ${this.clientId} too; give each its own (trying again in ${showDuration(Math.round(pause))})`;
    if (isNews) this.log.warn({ retry_ms: Math.round(pause) }, `connection lost: ${this.lastError ?? ''}`);
    this.retryTimer = setTimeout(() => this.open(), pause);
  }

  private get pauses(): { readonly initial: number; readonly max: number } {
    const reconnect = (this.raw.reconnect ?? {}) as RawMap;
    return { initial: parseDuration(reconnect.initial) ?? 1000, max: parseDuration(reconnect.max) ?? 30_000 };
  }

  /** Two clients with one id would throw each other off for ever: whoever is thrown off stays away, longer each time. */
  private takeoverPause(times: number): number {
    return times < 0 ? 0 : Math.min(MAX_TAKEOVER_PAUSE, this.pauses.max * 2 ** Math.min(times, 20));
  }

  private onMessage(topic: string, payload: Buffer, packet: IPublishPacket): void {
    this.counts.received++;
    const delayed = this.resumed && packet.qos > 0 && performance.now() - this.connectedAt < BACKLOG_FOR;
    const correlation = packet.properties?.correlationData;
    const oversize = payload.length > this.payloadLimit;
    if (oversize) this.counts.too_large++;
    const message = new Message(topic, oversize ? Buffer.alloc(0) : payload, {
      retained: packet.retain,
      oversize,
      delayed,
      ...(correlation !== undefined && { correlation: Buffer.from(correlation) }),
    });
    for (const hear of this.topics.find(topic)) hear(message);
  }

  private enter(state: ConnectionStatus['state']): void {
    if (this.state === state) return;
    this.state = state;
    this.since = Date.now();
  }
}

/** Resolves when it is done or has failed, but not later than a stop may take. */
async function withEnd(task: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, STOP_WITHIN);
  });
  await Promise.race([task.catch(() => undefined), late]);
  clearTimeout(timer);
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return escapeControls(String(error));
  const code = (error as NodeJS.ErrnoException).code;
  return escapeControls(error.message === '' ? String(code ?? 'the connection failed') : error.message);
}
