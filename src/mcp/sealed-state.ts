import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const NONCE = 12;
const TAG = 16;

/** A state that comes back is not what was given out: altered, another's, used before, or too old. */
export class StateError extends Error {}

/**
 * State that is kept by the client between two rounds of a call (MCP 2026-07-28, input_required): it can neither be read
 * nor altered there, is good for one use, for a time, and for whom it was made. A restart of the bridge makes it void.
 */
export class SealedStates {
  private readonly key = randomBytes(32);
  /** Milliseconds. */
  lifetime: number;
  private readonly now: () => number;
  /** Nonces of states that came back, until they would have expired anyway. */
  private readonly used = new Map<string, number>();

  /** @param lifetime in milliseconds */
  constructor(lifetime: number, now: () => number = () => performance.now()) {
    this.lifetime = lifetime;
    this.now = now;
  }

  /** @param bound what it is good for: caller and purpose, in one text */
  seal(value: object, bound: string): string {
    const nonce = randomBytes(NONCE);
    const cipher = createCipheriv(CIPHER, this.key, nonce).setAAD(Buffer.from(bound));
    const text = JSON.stringify({ until: this.now() + this.lifetime, value });
    return Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString('base64url');
  }

  /** @throws StateError */
  open(sealed: string, bound: string): unknown {
    const { until, value, nonce } = this.decrypt(sealed, bound);
    const now = this.now();
    for (const [old, end] of this.used) if (end < now) this.used.delete(old);
    if (until < now) throw new StateError('the state has expired; ask again without it');
    if (this.used.has(nonce)) throw new StateError('the state was used already; ask again without it');
    this.used.set(nonce, until);
    return value;
  }

  private decrypt(sealed: string, bound: string): { readonly until: number; readonly value: unknown; readonly nonce: string } {
    const bytes = Buffer.from(sealed, 'base64url');
    // Only the one text that stands for these bytes is taken: decoding skips what is no Base64.
    if (bytes.length > NONCE + TAG && bytes.toString('base64url') === sealed) {
      try {
        const nonce = bytes.subarray(0, NONCE);
        const decipher = createDecipheriv(CIPHER, this.key, nonce).setAAD(Buffer.from(bound)).setAuthTag(bytes.subarray(-TAG));
        const text = Buffer.concat([decipher.update(bytes.subarray(NONCE, -TAG)), decipher.final()]).toString();
        return { ...(JSON.parse(text) as { until: number; value: unknown }), nonce: nonce.toString('base64url') };
      } catch {
        // What does not decrypt was not sealed here, or not for this.
      }
    }
    throw new StateError('this is no state of this bridge, or not one of this call; ask again without it');
  }
}
