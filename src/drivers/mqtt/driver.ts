import { ExpressionError } from '../../expression/expression.ts';
import { RefusedByDevice, TransportError } from '../../model/errors.ts';
import type { Point } from '../../model/point.ts';
import type { RawMap } from '../../model/protocol.ts';
import { aged, bad, type Sample, sampleOf } from '../../model/sample.ts';
import type { Value } from '../../model/value.ts';
import type { WriteReceipt } from '../../model/write.ts';
import type { ConnectionStatus, DeviceStatus, Driver, DriverContext, WriteSteps } from '../driver.ts';
import { encodePayload } from './codec.ts';
import { isMetric, type MqttPoint, type Publication } from './point.ts';
import { Responses, wordsOfAnswer } from './responses.ts';
import { BrokerSession } from './session.ts';
import { addressOf } from './sparkplug/address.ts';
import { SparkplugDevice } from './sparkplug/device.ts';
import { EdgeNodes } from './sparkplug/edge-node.ts';
import { TopicDevice } from './topic-device.ts';

/** How long a first reading waits for a message, where nothing listened before. */
const FIRST_MESSAGE_WITHIN = 3000;

/** A session with a broker: messages become samples, writes become messages. */
export class MqttDriver implements Driver {
  /** Also for whoever publishes what the bridge knows. */
  readonly session: BrokerSession;
  private readonly name: string;
  private readonly devices: readonly (TopicDevice | SparkplugDevice)[];
  private readonly byName = new Map<string, TopicDevice | SparkplugDevice>();
  private readonly newest = new Map<string, Sample>();
  private readonly responses: Responses;
  private sink: (samples: readonly Sample[]) => void = () => undefined;
  private started = false;

  constructor(context: DriverContext) {
    const { connection } = context;
    this.name = connection.name;
    this.session = new BrokerSession(connection.name, context.visiting ? asVisitor(connection.raw) : connection.raw, context.log);
    const accept = (samples: readonly Sample[]): void => this.accept(samples);
    const nodes = new EdgeNodes(this.session, context.log);
    this.devices = context.devices.map(entry => {
      const isSparkplug = (entry.raw.sparkplug ?? connection.raw.sparkplug) !== undefined;
      const device = isSparkplug
        ? new SparkplugDevice(entry, nodes.of(addressOf(entry.raw.sparkplug, connection.raw.sparkplug).address), accept, context.learn)
        : new TopicDevice(entry, this.session, accept);
      this.byName.set(entry.name, device);
      return device;
    });
    const answers = context.devices.flatMap(entry =>
      entry.points.flatMap(point => (isMetric(point) ? [] : ((point as MqttPoint).publish?.response?.topic ?? []))),
    );
    this.responses = new Responses(this.session, answers);
    this.session.join({
      onConnected: refused => {
        for (const device of this.devices) device.onConnected(refused);
      },
      onLost: () => {
        for (const device of this.devices) device.onLost();
      },
    });
  }

  start(sink: (samples: readonly Sample[]) => void): void {
    this.sink = sink;
    this.open();
  }

  /** The newest message is all there is to read: asking does not make a device speak. */
  async read(points: readonly Point[], signal: AbortSignal): Promise<Sample[]> {
    if (!this.started) await this.firstMessages(points, signal);
    const now = performance.now();
    return points.map(point => {
      const sample = this.newest.get(point.name);
      return sample === undefined ? sampleOf(point, bad(this.session.connected ? 'initialising' : 'no_connection')) : aged(sample, now);
    });
  }

  async write(point: Point, value: Value, steps: WriteSteps, signal: AbortSignal): Promise<WriteReceipt | undefined> {
    if (signal.aborted) throw new TransportError('cancelled', 'cancelled before it was sent', false);
    const [present] = await this.read([point], signal);
    if (present === undefined) return undefined;
    const beside = (): Promise<Sample[]> => this.read(steps.beside ?? [], signal);
    if (isMetric(point)) {
      const device = this.byName.get(point.device);
      if (!(device instanceof SparkplugDevice)) throw new Error(`${point.name} is no metric of a Sparkplug device`);
      return await device.write(point, value, async wire => await steps.approve(present, wire, await beside()));
    }
    const target = point as MqttPoint;
    if (target.publish === undefined) throw new Error(`${point.name} has no topic to write to`);
    const payload = encodePayload(target, value);
    const shown = typeof payload === 'string' ? payload : payload.toString('hex');
    const wire = [`${target.publish.topic} ${shown}`];
    if (!(await steps.approve(present, wire, await beside()))) return undefined;
    const answer = await this.send(target.publish, payload, wire);
    if (target.topic !== undefined) return { wire };
    const said = answer === undefined ? '' : `, and the device answered ${answer}`;
    return { wire, mismatch: `the broker took the command${said}; no topic tells the state of ${point.name}, so nothing verifies it` };
  }

  /** It waits for messages, which come when they come. */
  stalledFor(): number {
    return 0;
  }

  get hasTried(): boolean {
    return this.session.hasTried;
  }

  connectionStatus(): ConnectionStatus {
    return this.session.status();
  }

  deviceStatus(): DeviceStatus[] {
    return this.devices.map(device => device.status(this.name, this.session.connected));
  }

  async stop(): Promise<void> {
    await this.session.stop();
  }

  /** @returns the device's answer, where it gives one. @throws RefusedByDevice, TransportError, NoReply */
  private async send(publication: Publication, payload: string | Buffer, wire: readonly string[]): Promise<string | undefined> {
    const { topic, qos, retain, response } = publication;
    if (response === undefined) {
      await this.session.publish({ topic, payload, qos, retain });
      return undefined;
    }
    const { correlation, answer, cancel } = this.responses.expect(response.within, wire);
    try {
      await this.session.publish({ topic, payload, qos, retain, response: { topic: response.topic, correlation } });
      const message = await answer;
      if (!isYes(response.ok, message)) throw new RefusedByDevice(`the device answered ${wordsOfAnswer(message)}`);
      return wordsOfAnswer(message);
    } finally {
      cancel();
    }
  }

  private open(): void {
    if (this.started) return;
    this.started = true;
    for (const device of this.devices) device.onStart();
    this.session.open();
  }

  /** A single reading from a command line opens the session and waits a while for what the broker has kept. */
  private async firstMessages(points: readonly Point[], signal: AbortSignal): Promise<void> {
    this.open();
    const deadline = performance.now() + FIRST_MESSAGE_WITHIN;
    const isOpen = (): boolean => !this.session.connected || points.some(point => this.newest.get(point.name) === undefined);
    while (!signal.aborted && performance.now() < deadline && isOpen()) await new Promise(resolve => setTimeout(resolve, 20));
  }

  private accept(samples: readonly Sample[]): void {
    for (const sample of samples) this.newest.set(sample.point.name, sample);
    this.sink(samples);
  }
}

/** A session of its own, that leaves nothing behind at the broker. */
function asVisitor(raw: RawMap): RawMap {
  const { client_id, clean, session_expiry, ...rest } = raw;
  return rest;
}

function isYes(ok: NonNullable<Publication['response']>['ok'], message: Parameters<typeof wordsOfAnswer>[0]): boolean {
  if (ok === undefined) return true;
  try {
    return ok.run({ payload: message.content, topic: message.topic }) === true;
  } catch (error) {
    if (error instanceof ExpressionError) return false;
    throw error;
  }
}
