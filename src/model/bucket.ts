/** So many at once, and so many more as time goes by: a token bucket on the monotonic clock. */
export class TokenBucket {
  private readonly size: number;
  private readonly perMs: number;
  private tokens: number;
  private filledAt = performance.now();

  /** @param perMs how many come back in a millisecond */
  constructor(size: number, perMs: number) {
    this.size = size;
    this.perMs = perMs;
    this.tokens = size;
  }

  /** How many may be taken now. */
  get left(): number {
    const now = performance.now();
    this.tokens = Math.min(this.size, this.tokens + (now - this.filledAt) * this.perMs);
    this.filledAt = now;
    return this.tokens;
  }

  /** Milliseconds until one may be taken. */
  get wait(): number {
    return Math.max(0, (1 - this.left) / this.perMs);
  }

  take(): void {
    this.tokens = this.left - 1;
  }
}
