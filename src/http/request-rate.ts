import { TokenBucket } from '../model/bucket.ts';

const MAX_CALLERS = 1000;

/** How often each caller may ask. */
export class RequestRate {
  private readonly perSecond: number;
  private readonly buckets = new Map<string, TokenBucket>();

  constructor(perSecond: number) {
    this.perSecond = perSecond;
  }

  /** @param caller a name, or an address where nobody is known. @returns whether it may ask now */
  take(caller: string): boolean {
    const bucket = this.buckets.get(caller) ?? new TokenBucket(2 * this.perSecond, this.perSecond / 1000);
    // Who asked last is the last to be forgotten.
    this.buckets.delete(caller);
    this.buckets.set(caller, bucket);
    const [oldest] = this.buckets.keys();
    if (this.buckets.size > MAX_CALLERS && oldest !== undefined) this.buckets.delete(oldest);
    if (bucket.left < 1) return false;
    bucket.take();
    return true;
  }
}
