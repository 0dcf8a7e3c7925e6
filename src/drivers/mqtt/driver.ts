import { connect, type IClientOptions, type MqttClient } from 'mqtt';
import { parseDuration } from '../../model/duration.ts';
import { TransportError } from '../../model/errors.ts';
import type { Point } from '../../model/point.ts';
import type { RawMap } from '../../model/protocol.ts';
import { bad, type Reading, type Sample, sampleOf, uncertain } from '../../model/sample.ts';
import { escapeControls } from '../../model/text.ts';
import type { Value } from '../../model/value.ts';
import type { WriteReceipt } from '../../model/write.ts';
import { type ConnectionStatus, type DeviceStatus, type Driver, type DriverContext, NoReply, type WriteSteps } from '../driver.ts';
import { decodePayload, encodePayload } from './codec.ts';
import type { MqttPoint } from './point.ts';
import { TopicIndex } from './topics.ts';

/** A session that lasts this long was no takeover by another client of the same id. */
const STABLE_AFTER = 10_000;

interface MqttDevice {
  readonly name: string;
  readonly points: readonly MqttPoint[];
  readonly availability: { readonly topic: string; readonly online: string; readonly offline: string } | undefined;
  offline: boolean;
  since: number;
  messages: number;
}

/** Who hears a topic: a point of a device, or, without one, the device's availability. */
interface Wanted {
  readonly device: MqttDevice;
  readonly point?: MqttPoint;
}

/** A session with a broker: messages become samples, writes become messages. */
export class MqttDriver implements Driver {
  private readonly context: DriverContext;
  private readonly raw: RawMap;
  private readonly devices: readonly MqttDevice[];
  private readonly topics = new TopicIndex<Wanted>();
  private readonly newest = new Map<string, Sample>();
  private readonly timeout: number;
  private readonly payloadLimit: number;
  private sink: (samples: readonly Sample[]) => void = () => undefined;
  private client: MqttClient | undefined;
  private retryTimer: NodeJS.Timeout | undefined;
  private state: ConnectionStatus['state'] = 'connecting';
  private since = Date.now();
  private connectedAt = 0;
  private lastError: string | undefined;
  private attempt = 0;
  private connects = 0;
  private messages = 0;
  private dropped = 0;
  private stopped = false;

  constructor(context: DriverContext) {
    this.context = context;
    this.raw = context.connection.raw;
    this.timeout = parseDuration(this.raw.timeout) ?? 5000;
    this.payloadLimit = Number(this.raw.payload_limit ?? 65_536);
    this.devices = context.devices.map(device => {
      const given = device.raw.availability as { topic: string; online?: string; offline?: string } | undefined;
      const availability =
        given === undefined ? undefined : { topic: given.topic, online: given.online ?? 'online', offline: given.offline ?? 'offline' };
      return {
        name: device.name,
        points: device.points as readonly MqttPoint[],
        availability,
        offline: false,
        since: Date.now(),
        messages: 0,
      };
    });
    for (const device of this.devices) {
      for (const point of device.points) this.topics.add(point.topic, { device, point });
      if (device.availability !== undefined) this.topics.add(device.availability.topic, { device });
    }
  }

  start(sink: (samples: readonly Sample[]) => void): void {
    this.sink = sink;
    this.open();
  }

  /** The newest message is all there is to read: asking does not make a device speak. */
  read(points: readonly Point[]): Promise<Sample[]> {
    return Promise.resolve(
      points.map(point => this.newest.get(point.name) ?? sampleOf(point, bad(this.client?.connected ? 'initialising' : 'no_connection'))),
    );
  }

  async write(point: Point, value: Value, steps: WriteSteps, signal: AbortSignal): Promise<WriteReceipt | undefined> {
    const target = point as MqttPoint;
    const { publish } = target;
    if (publish === undefined) throw new Error(`${point.name} has no topic to write to`);
    if (signal.aborted) throw new TransportError('cancelled', 'cancelled before it was sent', false);
    const payload = encodePayload(target, value);
    const wire = [`${publish.topic} ${payload}`];
    const [present] = await this.read([point]);
    if (present === undefined || !(await steps.approve(present, wire))) return undefined;
    const { client } = this;
    if (client?.connected !== true) throw new TransportError('no_connection', this.lastError ?? 'no connection to the broker', false);
    await this.publish(client, publish, payload, wire);
    return { wire };
  }

  connectionStatus(): ConnectionStatus {
    return {
      name: this.context.connection.name,
      type: this.context.connection.type,
      state: this.state,
      since: new Date(this.since).toISOString(),
      ...(this.lastError !== undefined && { last_error: this.lastError }),
      requests: this.messages,
      requests_per_second: 0,
      timeouts: 0,
      exceptions: 0,
      protocol_errors: this.dropped,
      discarded_replies: 0,
      connects: this.connects,
      queued: 0,
    };
  }

  deviceStatus(): DeviceStatus[] {
    return this.devices.map(device => ({
      name: device.name,
      connection: this.context.connection.name,
      state: this.state !== 'connected' || device.offline ? 'lost' : device.messages === 0 ? 'starting' : 'polling',
      since: new Date(device.since).toISOString(),
      cycles: device.messages,
      late_cycles: 0,
      plan: { requests: 0, registers: 0, unused_registers: 0, load_percent: 0 },
    }));
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.retryTimer);
    this.enter('stopped');
    await this.client?.endAsync(true).catch(() => undefined);
  }

  private async publish(
    client: MqttClient,
    { topic, qos, retain }: NonNullable<MqttPoint['publish']>,
    payload: string,
    wire: readonly string[],
  ): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new NoReply(`the broker did not acknowledge within ${this.timeout} ms`, wire)), this.timeout);
    });
    let onLost = (): void => undefined;
    const lost = new Promise<never>((_, reject) => {
      onLost = () => reject(new NoReply('the connection to the broker was lost', wire));
      client.once('close', onLost);
    });
    try {
      await Promise.race([client.publishAsync(topic, payload, { qos, retain }), late, lost]);
    } catch (error) {
      throw error instanceof NoReply ? error : new NoReply(error instanceof Error ? error.message : String(error), wire);
    } finally {
      clearTimeout(timer);
      client.off('close', onLost);
    }
  }

  private open(): void {
    const { raw } = this;
    const tls = (raw.tls ?? {}) as { ca?: string; cert?: string; key?: string; server_name?: string };
    const options: IClientOptions = {
      protocolVersion: Number(raw.protocol_version ?? 5) as 4 | 5,
      clientId: String(raw.client_id ?? `fieldbridge-${this.context.connection.name}-${process.pid}`),
      clean: raw.clean !== false,
      keepalive: Math.max(1, Math.round((parseDuration(raw.keepalive) ?? 30_000) / 1000)),
      connectTimeout: this.timeout,
      // Connecting again is ours: with growing pauses, and not at all costs.
      reconnectPeriod: 0,
      resubscribe: false,
      queueQoSZero: false,
      ...(raw.username !== undefined && { username: String(raw.username) }),
      ...(raw.password !== undefined && { password: String(raw.password) }),
      ...(tls.ca !== undefined && { ca: tls.ca }),
      ...(tls.cert !== undefined && { cert: tls.cert }),
      ...(tls.key !== undefined && { key: tls.key }),
      ...(tls.server_name !== undefined && { servername: tls.server_name }),
    };
    const client = connect(String(raw.url), options);
    this.client = client;
    let reason = 'the broker closed the connection';
    client.on('connect', () => this.onConnected(client));
    client.on('message', (topic, payload, packet) => this.onMessage(topic, payload, packet.retain));
    client.on('error', error => {
      reason = escapeControls(
        error.message === '' ? String((error as NodeJS.ErrnoException).code ?? 'the connection failed') : error.message,
      );
    });
    client.on('disconnect', packet => {
      // MQTT 5.0, 4.13: 0x8e says that another client has taken the session over.
      if (packet.reasonCode === 0x8e) reason = `another client uses the client id ${String(options.clientId)}; give each its own`;
    });
    client.on('close', () => this.onClosed(client, reason));
  }

  private onConnected(client: MqttClient): void {
    this.connects++;
    this.connectedAt = performance.now();
    this.enter('connected');
    this.context.log.info({}, 'connected to the broker');
    const topics = this.topics.all;
    if (topics.length === 0) return;
    client.subscribeAsync(topics, { qos: 1 }).then(
      grants => {
        const refused = grants.filter(grant => grant.qos > 2).map(grant => grant.topic);
        if (refused.length > 0) this.lastError = `the broker refuses to let the bridge subscribe to ${refused.join(', ')}`;
      },
      (error: unknown) => {
        this.lastError = error instanceof Error ? error.message : String(error);
      },
    );
  }

  private onClosed(client: MqttClient, reason: string): void {
    if (client !== this.client || this.stopped) return;
    client.removeAllListeners();
    client.on('error', () => undefined);
    client.end(true);
    this.client = undefined;
    const lasted = this.state === 'connected' && performance.now() - this.connectedAt > STABLE_AFTER;
    if (lasted) this.attempt = 0;
    const isNews = this.state !== 'disconnected';
    this.enter('disconnected');
    this.lastError = reason;
    const reading = bad('no_connection');
    this.accept(this.devices.flatMap(device => device.points.map(point => sampleOf(point, reading))));
    const reconnect = (this.raw.reconnect ?? {}) as RawMap;
    const [initial, max] = [parseDuration(reconnect.initial) ?? 1000, parseDuration(reconnect.max) ?? 30_000];
    const pause = Math.min(max, initial * 2 ** this.attempt) * (0.75 + Math.random() * 0.25);
    this.attempt++;
    if (isNews) this.context.log.warn({ retry_ms: Math.round(pause) }, `connection lost: ${reason}`);
    this.retryTimer = setTimeout(() => this.open(), pause);
  }

  private onMessage(topic: string, payload: Buffer, isRetained: boolean): void {
    this.messages++;
    const isTooLarge = payload.length > this.payloadLimit;
    if (isTooLarge) this.dropped++;
    const samples: Sample[] = [];
    for (const { device, point } of this.topics.find(topic)) {
      if (point === undefined) samples.push(...this.onAvailability(device, payload.toString()));
      else {
        device.messages++;
        const reading = isTooLarge ? bad('decode_error') : decodePayload(point, topic, payload);
        samples.push(sampleOf(point, device.offline ? bad('offline') : isRetained ? ofUnknownAge(point, reading) : reading));
      }
    }
    this.accept(samples);
  }

  private onAvailability(device: MqttDevice, payload: string): Sample[] {
    const says = device.availability;
    if (says === undefined || (payload !== says.online && payload !== says.offline)) return [];
    const offline = payload === says.offline;
    if (offline !== device.offline) device.since = Date.now();
    device.offline = offline;
    return offline ? device.points.map(point => sampleOf(point, bad('offline'))) : [];
  }

  private accept(samples: readonly Sample[]): void {
    for (const sample of samples) this.newest.set(sample.point.name, sample);
    this.sink(samples);
  }

  private enter(state: ConnectionStatus['state']): void {
    if (this.state === state) return;
    this.state = state;
    this.since = Date.now();
  }
}

/** A retained message (MQTT 5.0, 3.3.1.3) was published nobody knows when: where age matters, it can not count as fresh. */
function ofUnknownAge(point: MqttPoint, reading: Reading): Reading {
  return reading.quality === 'good' && Number.isFinite(point.staleAfter) ? uncertain(reading.value, 'stale') : reading;
}
