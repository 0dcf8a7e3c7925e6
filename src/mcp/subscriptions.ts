import type { Field } from '../control/field.ts';
import type { Role } from '../model/role.ts';
import type { Change, LiveValues } from '../store/live-values.ts';
import { STATUS_URI } from './resources.ts';

/** A list of which there may be others after a change. */
export type ChangingList = 'tools' | 'resources';

/** Somebody who is told which resources changed, and which lists did; it picks what it cares for. */
export interface Sink {
  updated(uri: string): void;
  listChanged(list: ChangingList, roles: ReadonlySet<Role>): void;
}

/** Where to hear of changes. @returns how to stop hearing */
export interface News {
  add(sink: Sink): () => void;
}

/**
 * From changes of values to notifications: what changes within the notify interval is told once, for the point and for
 * its device; a change of quality for the state of the bridge too.
 */
export class Subscriptions implements News {
  private readonly field: Field;
  private interval: number;
  private readonly sinks = new Set<Sink>();
  private readonly changed = new Set<string>();
  private readonly stopListening: () => void;
  private timer: NodeJS.Timeout | undefined;
  private readonly listNews = new Map<ChangingList, Set<Role>>();

  constructor(field: Field, live: LiveValues, interval: number) {
    this.field = field;
    this.interval = interval;
    this.stopListening = live.onChange(change => this.note(change));
  }

  add(sink: Sink): () => void {
    this.sinks.add(sink);
    return () => this.sinks.delete(sink);
  }

  /** From now on. */
  tellEvery(interval: number): void {
    this.interval = interval;
  }

  /** These roles see others in a list than before; told once for all that come within the interval. */
  listChanged(list: ChangingList, roles: Iterable<Role>): void {
    if (this.sinks.size === 0) return;
    this.listNews.set(list, new Set([...(this.listNews.get(list) ?? []), ...roles]));
    this.timer ??= setTimeout(() => this.tell(), this.interval);
  }

  stop(): void {
    this.stopListening();
    clearTimeout(this.timer);
    this.sinks.clear();
  }

  private note({ sample: { point }, ofQuality }: Change): void {
    if (this.sinks.size === 0) return;
    this.changed.add(point.uri);
    const device = this.field.plant.devices.get(point.device);
    if (device !== undefined && !point.hidden) this.changed.add(device.uri);
    if (ofQuality) this.changed.add(STATUS_URI);
    this.timer ??= setTimeout(() => this.tell(), this.interval);
  }

  private tell(): void {
    this.timer = undefined;
    const uris = [...this.changed];
    this.changed.clear();
    const lists = [...this.listNews];
    this.listNews.clear();
    for (const sink of this.sinks) {
      for (const [list, roles] of lists) sink.listChanged(list, roles);
      for (const uri of uris) sink.updated(uri);
    }
  }
}
