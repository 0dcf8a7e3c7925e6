import type { Log } from '../drivers/driver.ts';
import type { Sample } from '../model/sample.ts';

/** What is told of a publication to whoever asks how the bridge is. */
export interface PublisherStatus {
  readonly connection: string;
  readonly format: 'json' | 'sparkplug';
  /** Samples that the broker has. */
  readonly published: number;
  /** Samples that wait for the broker. */
  readonly waiting: number;
  readonly stored_bytes: number;
  /** Samples that nobody will get: the oldest of a full store, and what the broker refused. */
  readonly dropped: number;
  readonly refused: number;
  /** Sparkplug: commands that are not carried out, and those that the broker had kept. */
  readonly refused_commands?: number;
  readonly trouble?: string;
}

/** Takes what changes, and sends it on. */
export interface Publisher {
  open(): Promise<void>;
  changed(sample: Sample): void;
  status(): PublisherStatus;
}

/** Where a publisher finds what is known now, and tells what goes wrong. */
export interface PublisherContext {
  readonly bridge: string;
  readonly log: Log;
  /** The newest samples of the points that are published, without those that were not read yet. */
  readonly current: () => readonly Sample[];
}
