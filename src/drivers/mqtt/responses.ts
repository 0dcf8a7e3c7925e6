import { randomBytes } from 'node:crypto';
import { escapeControls } from '../../model/text.ts';
import { NoReply } from '../driver.ts';
import type { Message } from './message.ts';
import type { BrokerSession } from './session.ts';

/** Commands that wait for an answer, at most. */
const MAX_WAITING = 1000;

/** Answers of devices, found by their correlation data (MQTT 5.0, 4.10). */
export class Responses {
  private readonly waiting = new Map<string, (message: Message) => void>();
  private readonly session: BrokerSession;

  constructor(session: BrokerSession, topics: Iterable<string>) {
    this.session = session;
    for (const topic of new Set(topics)) session.subscribe(topic, message => this.onMessage(message));
  }

  /** Before the command is sent, so that no answer comes too early. */
  expect(within: number, wire: readonly string[]): { readonly correlation: Buffer; readonly answer: Promise<Message>; cancel(): void } {
    const correlation = randomBytes(16);
    const key = correlation.toString('hex');
    let timer: NodeJS.Timeout | undefined;
    const answer = new Promise<Message>((resolve, reject) => {
      timer = setTimeout(() => {
        this.waiting.delete(key);
        reject(new NoReply(`the device did not answer within ${within} ms`, wire));
      }, within);
      const [oldest] = this.waiting.keys();
      if (this.waiting.size >= MAX_WAITING && oldest !== undefined) this.waiting.delete(oldest);
      this.waiting.set(key, resolve);
    });
    // Whoever cancels does not hear of the end of the wait.
    answer.catch(() => undefined);
    const cancel = (): void => {
      clearTimeout(timer);
      this.waiting.delete(key);
    };
    return { correlation, answer, cancel };
  }

  private onMessage(message: Message): void {
    if (message.retained) {
      this.session.counts.retained_commands++;
      return;
    }
    const key = message.correlation?.toString('hex') ?? '';
    const resolve = this.waiting.get(key);
    this.waiting.delete(key);
    resolve?.(message);
  }
}

/** The answer in its own words, for a person: data, and not too much of it. */
export function wordsOfAnswer(message: Message): string {
  const text = message.text ?? `${message.payload.length} bytes`;
  return JSON.stringify(escapeControls(text.length > 200 ? `${text.slice(0, 197)}…` : text));
}
