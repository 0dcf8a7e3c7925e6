import { createHash, timingSafeEqual } from 'node:crypto';
import type { Log } from '../drivers/driver.ts';
import type { Role } from '../model/role.ts';

/** A bearer token as the map knows it: by its hash alone. */
export interface TokenEntry {
  readonly name: string;
  readonly role: Role;
  /** SHA-256 of the token's text, in hexadecimal. */
  readonly sha256: string;
  /** A person's: it decides about writes that wait, and opens no MCP. */
  readonly approves: boolean;
}

/** More wrong tokens than this from one address in a minute, and it has to wait. */
const MAX_FAILURES = 10;
const WINDOW = 60_000;
const MAX_ADDRESSES = 1000;

export type Verdict = { readonly caller: TokenEntry } | { readonly status: 401 | 429 };

/** Who calls, by a token of 256 bits. Which tokens there are, and how near a wrong one came, nothing tells. */
export class TokenAuth {
  private readonly entries: readonly { readonly entry: TokenEntry; readonly hash: Buffer }[];
  private readonly failures = new Map<string, { count: number; since: number }>();
  private readonly log: Log;

  constructor(tokens: readonly TokenEntry[], log: Log) {
    this.entries = tokens.map(entry => ({ entry, hash: Buffer.from(entry.sha256, 'hex') }));
    this.log = log;
  }

  /** Without tokens in the map everybody of this machine may call. */
  get isOn(): boolean {
    return this.entries.length > 0;
  }

  check(authorization: string | undefined, address: string): Verdict {
    const now = performance.now();
    const failed = this.failures.get(address);
    if (failed !== undefined && now - failed.since > WINDOW) this.failures.delete(address);
    else if (failed !== undefined && failed.count >= MAX_FAILURES) return { status: 429 };
    const [, token] = /^Bearer +(\S+)$/i.exec(authorization ?? '') ?? [];
    const hash = createHash('sha256')
      .update(token ?? '')
      .digest();
    // Every entry is compared, so that the time tells nothing about which.
    const found = this.entries.filter(entry => timingSafeEqual(entry.hash, hash));
    const [match] = token === undefined ? [] : found;
    if (match !== undefined) return { caller: match.entry };
    this.note(address, now);
    return { status: 401 };
  }

  private note(address: string, now: number): void {
    const failed = this.failures.get(address) ?? { count: 0, since: now };
    failed.count++;
    this.failures.set(address, failed);
    const [oldest] = this.failures.keys();
    if (this.failures.size > MAX_ADDRESSES && oldest !== undefined) this.failures.delete(oldest);
    if (failed.count === 1 || failed.count === MAX_FAILURES)
      this.log.warn(
        { address, count: failed.count },
        failed.count === 1 ? 'a caller had no right token' : 'a caller has had too many wrong tokens, and waits a minute',
      );
  }
}
