import { NoReply } from '../drivers/driver.ts';
import type { BrokerSession, Outgoing } from '../drivers/mqtt/session.ts';
import { wordsOf } from '../model/errors.ts';
import type { PublishSpec } from '../model/publish.ts';
import { topicOf } from '../model/publish.ts';
import { present, type Sample } from '../model/sample.ts';
import { type Batch, Outbox } from './outbox.ts';
import type { Publisher, PublisherContext, PublisherStatus } from './publisher.ts';

/** Messages that wait for their acknowledgement at once. */
const MAX_IN_FLIGHT = 100;

interface Stored {
  readonly topic: string;
  readonly payload: string;
}

type JsonSpec = Extract<PublishSpec, { format: 'json' }>;

/**
 * Samples as JSON, each on the topic of its point, as they change. While the broker is away they wait, and then go in the
 * order in which they came, before anything newer.
 */
export class JsonPublisher implements Publisher {
  private readonly spec: JsonSpec;
  private readonly session: BrokerSession;
  private readonly context: PublisherContext;
  private readonly outbox: Outbox<Stored>;
  /** Sent straight away, not acknowledged yet, in order. */
  private readonly inFlight = new Set<Stored>();
  /** Topics that this session of the broker has been sent. */
  private readonly sent = new Set<string>();
  private isDraining = false;
  private published = 0;
  private refused = 0;
  private everConnected = false;

  constructor(spec: JsonSpec, session: BrokerSession, context: PublisherContext) {
    this.spec = spec;
    this.session = session;
    this.context = context;
    this.outbox = new Outbox(spec.store?.folder ?? '', spec.store?.maxBytes ?? 0);
    session.join({
      onConnected: () => void this.onConnected(),
      onLost: () => this.onLost(),
      onStop: async () => {
        this.onLost();
        await this.outbox.close();
      },
    });
  }

  open(): Promise<void> {
    return this.outbox.open();
  }

  changed(sample: Sample): void {
    if (!this.spec.includes(sample.point)) return;
    const message = this.messageOf(sample);
    if (!this.session.connected || this.isDraining || !this.outbox.isEmpty || this.inFlight.size >= MAX_IN_FLIGHT) {
      this.outbox.push(message);
      if (this.session.connected) void this.drain();
    } else void this.sendNow(message);
  }

  status(): PublisherStatus {
    return {
      connection: this.spec.connection,
      format: 'json',
      published: this.published,
      waiting: this.outbox.waiting + this.inFlight.size,
      stored_bytes: this.outbox.bytes,
      dropped: this.outbox.dropped,
      refused: this.refused,
      ...(this.outbox.trouble !== undefined && { trouble: this.outbox.trouble }),
    };
  }

  private async onConnected(): Promise<void> {
    this.sent.clear();
    await this.drain();
    // A broker that was restarted may have lost what it kept; what has not changed since is said once more.
    if (this.everConnected || this.outbox.dropped > 0 || this.spec.store === undefined) {
      for (const sample of this.context.current()) {
        const message = this.messageOf(sample);
        if (this.session.connected && !this.sent.has(message.topic)) this.changed(sample);
      }
    }
    this.everConnected = true;
  }

  /** What was out and is not acknowledged waits in front of everything else. */
  private onLost(): void {
    const unanswered = [...this.inFlight];
    this.inFlight.clear();
    this.outbox.unshift(unanswered);
  }

  private async sendNow(message: Stored): Promise<void> {
    this.inFlight.add(message);
    const result = await this.publish(message);
    // Lost meanwhile: it is in the outbox already.
    if (!this.inFlight.delete(message) || result === 'sent') return;
    this.outbox.unshift([message]);
    if (this.session.connected) void this.drain();
  }

  /** Everything that waits, oldest first, batch by batch, until it is gone or the session is. */
  private async drain(): Promise<void> {
    if (this.isDraining) return;
    this.isDraining = true;
    try {
      for (;;) {
        const batch = this.session.connected ? await this.outbox.peek() : undefined;
        if (batch === undefined) return;
        // What a broker that is still there did not acknowledge in time is sent once more.
        if (await this.sendAll(batch)) this.outbox.finish(batch);
      }
    } finally {
      this.isDraining = false;
    }
  }

  /** @returns whether all of it is done */
  private async sendAll(batch: Batch<Stored>): Promise<boolean> {
    const waiting = batch.entries.filter(entry => !entry.isDone);
    for (let i = 0; i < waiting.length; i += MAX_IN_FLIGHT) {
      const part = waiting.slice(i, i + MAX_IN_FLIGHT);
      const results = await Promise.all(part.map(entry => this.publish(entry.record)));
      for (const [n, entry] of part.entries()) entry.isDone ||= results[n] === 'sent';
      if (!this.session.connected) return false;
    }
    return batch.entries.every(entry => entry.isDone);
  }

  private async publish({ topic, payload }: Stored): Promise<'sent' | 'lost'> {
    const message: Outgoing = { topic, payload, qos: this.spec.qos, retain: this.spec.retain };
    try {
      await this.session.publish(message);
      this.published++;
      this.sent.add(topic);
      return 'sent';
    } catch (error) {
      if (error instanceof NoReply || !this.session.connected) return 'lost';
      // The broker will refuse it again; trying for ever would hold up everything behind it.
      this.refused++;
      if (this.refused === 1) this.context.log.warn({ topic }, `a message could not be published: ${wordsOf(error)}`);
      return 'sent';
    }
  }

  private messageOf(sample: Sample): Stored {
    const { age_ms, ...content } = present(sample);
    return { topic: topicOf(this.spec.topic, this.context.bridge, sample.point), payload: JSON.stringify(content) };
  }
}
