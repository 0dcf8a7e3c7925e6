import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import { aged, bad, hasLeftDeadband, type Sample, sampleOf } from '../model/sample.ts';
import type { Value } from '../model/value.ts';

export interface Change {
  readonly sample: Sample;
  /** Counts up over all points of this run. */
  readonly sequence: number;
  /** Not only the value: how far it can be relied upon. */
  readonly ofQuality: boolean;
}

interface State {
  sample: Sample;
  /** What subscribers were last told of. */
  told: { readonly value: Value; readonly quality: Sample['quality']; readonly reason?: Sample['reason'] };
  sequence: number;
}

/** How often values are looked at for having grown stale, at most. */
const SWEEP = 1000;

/** The newest sample of every point, and who wants to hear when one changes by more than its deadband. */
export class LiveValues {
  private readonly states = new Map<string, State>();
  private readonly listeners = new Set<(change: Change) => void>();
  private readonly watchers = new Set<(sample: Sample) => void>();
  private sequence = 0;
  private sweepTimer: NodeJS.Timeout | undefined;

  constructor(plant: Plant) {
    const at = performance.now();
    const wall = Date.now();
    for (const point of plant.points.values()) this.add(point, at, wall);
    this.sweepEvery(plant);
  }

  /** A point that was learned later, or of which more was learned. */
  add(point: Point, at = performance.now(), wall = Date.now()): void {
    const known = this.states.get(point.name);
    if (known !== undefined) {
      known.sample = { ...known.sample, point };
      return;
    }
    const sample: Sample = { point, value: null, quality: 'bad', reason: 'initialising', at, wall };
    this.states.set(point.name, { sample, told: sample, sequence: 0 });
  }

  /** What is not of this plant is forgotten, and what changed is not known yet; all others keep what is known of them. */
  become(plant: Plant): void {
    for (const [name, { sample }] of this.states) if (plant.points.get(name) !== sample.point) this.states.delete(name);
    for (const point of plant.points.values()) this.add(point);
    this.sweepEvery(plant);
  }

  /** The number of the newest change: everything after it is news. */
  get cursor(): number {
    return this.sequence;
  }

  onChange(listener: (change: Change) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Hears every sample, also those within the deadband. */
  onSample(listener: (sample: Sample) => void): () => void {
    this.watchers.add(listener);
    return () => this.watchers.delete(listener);
  }

  update(samples: readonly Sample[]): void {
    for (const sample of samples) {
      const state = this.states.get(sample.point.name);
      // A reading of what the map does not have any more, or has otherwise.
      if (state === undefined || state.sample.point !== sample.point) continue;
      // Two readings may overlap; the later one counts, whichever arrives last.
      if (sample.at < state.sample.at) continue;
      const lastGood =
        sample.quality === 'good'
          ? undefined
          : state.sample.quality === 'good'
            ? { value: state.sample.value, wall: state.sample.wall }
            : state.sample.lastGood;
      state.sample = lastGood === undefined ? sample : { ...sample, lastGood };
      this.tell(state);
      for (const watcher of this.watchers) watcher(state.sample);
    }
  }

  /** The newest sample, doubted where it has grown too old. */
  get(point: Point, now = performance.now()): Sample {
    const state = this.states.get(point.name);
    // Of a point that is gone nothing is known, whoever still holds it.
    return state === undefined ? sampleOf(point, bad('not_available'), now) : aged(state.sample, now);
  }

  /** Number of the point's newest change; 0 before its first. */
  changedAt(point: Point): number {
    return this.states.get(point.name)?.sequence ?? 0;
  }

  stop(): void {
    clearInterval(this.sweepTimer);
    this.listeners.clear();
  }

  private sweepEvery(plant: Plant): void {
    const shortest = Math.min(SWEEP, ...[...plant.points.values()].map(point => point.staleAfter / 2));
    clearInterval(this.sweepTimer);
    this.sweepTimer = setInterval(() => this.sweep(), Math.max(20, shortest));
    this.sweepTimer.unref();
  }

  private sweep(): void {
    const now = performance.now();
    for (const state of this.states.values()) {
      if (state.sample.quality !== 'good') continue;
      const sample = aged(state.sample, now);
      if (sample === state.sample) continue;
      state.sample = { ...sample, lastGood: { value: state.sample.value, wall: state.sample.wall } };
      this.tell(state);
    }
  }

  private tell(state: State): void {
    if (!isNews(state)) return;
    const ofQuality = state.told.quality !== state.sample.quality;
    state.told = state.sample;
    state.sequence = ++this.sequence;
    for (const listener of this.listeners) listener({ sample: state.sample, sequence: state.sequence, ofQuality });
  }
}

function isNews({ sample, told }: State): boolean {
  if (sample.quality !== told.quality || sample.reason !== told.reason) return true;
  return hasLeftDeadband(sample.point, told.value, sample.value);
}
