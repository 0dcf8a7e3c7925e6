import type { WriteHistory } from './gates.ts';

/** A token bucket for the whole bridge and the time of each point's last write. */
export class WriteRate implements WriteHistory {
  private readonly perMinute: number;
  private readonly last = new Map<string, number>();
  private tokens: number;
  private filledAt = performance.now();

  constructor(perMinute: number) {
    this.perMinute = perMinute;
    this.tokens = perMinute;
  }

  lastWrite(point: string): number | undefined {
    return this.last.get(point);
  }

  budget(): { left: number; wait: number } {
    this.fill();
    return { left: this.tokens, wait: this.tokens >= 1 ? 0 : ((1 - this.tokens) * 60_000) / this.perMinute };
  }

  /** A request goes to the wire now. */
  note(point: string): void {
    this.fill();
    this.tokens -= 1;
    this.last.set(point, performance.now());
  }

  private fill(): void {
    const now = performance.now();
    this.tokens = Math.min(this.perMinute, this.tokens + ((now - this.filledAt) * this.perMinute) / 60_000);
    this.filledAt = now;
  }
}
