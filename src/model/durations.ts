/** Seconds up to which a duration counts for each class: from a PLC on the same switch to a slow line. */
const BOUNDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10] as const;

/** How durations are spread, in classes. */
export class Durations {
  private readonly counts: number[] = Array.from({ length: BOUNDS.length + 1 }, () => 0);
  private total = 0;

  add(ms: number): void {
    const seconds = ms / 1000;
    this.total += seconds;
    const found = BOUNDS.findIndex(bound => seconds <= bound);
    const at = found < 0 ? BOUNDS.length : found;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
  }

  /** Seconds of all together. */
  get sum(): number {
    return this.total;
  }

  /** Each bound with how many lie at or below it; the last has none, and all. */
  cumulative(): { readonly bound: number | undefined; readonly count: number }[] {
    let count = 0;
    return this.counts.map((one, i) => {
      count += one;
      return { bound: BOUNDS[i], count };
    });
  }
}
