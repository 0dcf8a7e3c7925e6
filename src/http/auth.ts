import { createHash, timingSafeEqual } from 'node:crypto';
import type { PeerCertificate } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { Log } from '../drivers/driver.ts';
import {
  ANYBODY,
  areKnownByCertificate,
  BY_CERTIFICATE,
  type Caller,
  type HttpSettings,
  hasAuthentication,
  isLoopback,
  type TokenEntry,
} from '../model/access.ts';
import { escapeControls } from '../model/text.ts';
import type { Principal } from '../model/write.ts';
import { JwtCheck } from './jwt.ts';
import { RequestRate } from './request-rate.ts';

/** 401: not known. 403: known, without a role. 429: wrong too often. 503: who signs the tokens can not be reached. */
export type Verdict = { readonly caller: Caller } | { readonly status: 401 | 403 | 429 | 503 };

/** What a request brings to say who it is from. */
export interface Credentials {
  readonly authorization: string | undefined;
  readonly address: string;
  /** One that the listener has verified. */
  readonly certificate: PeerCertificate | undefined;
}

/** More wrong credentials than this from one address in a minute, and it has to wait. */
const MAX_FAILURES = 10;
const WINDOW = 60_000;
const MAX_ADDRESSES = 1000;
const MAX_NAME = 100;

/**
 * Who calls: by a token of 256 bits, by one of an authorization server, or by a certificate. Which there are, and how near
 * a wrong one came, nothing tells.
 */
export class Authentication {
  /** Without any, everybody who reaches the listener may call. */
  readonly isOn: boolean;
  private readonly settings: HttpSettings;
  private readonly tokens: readonly { readonly entry: TokenEntry; readonly hash: Buffer }[];
  private readonly jwt: JwtCheck | undefined;
  private readonly anybody: Caller;
  private readonly failures = new Map<string, { count: number; since: number }>();
  private readonly attempts: RequestRate;
  private readonly log: Log;

  constructor(settings: HttpSettings, log: Log) {
    this.settings = settings;
    this.isOn = hasAuthentication(settings);
    this.tokens = settings.tokens.map(entry => ({ entry, hash: Buffer.from(entry.sha256, 'hex') }));
    this.jwt = settings.jwt === undefined ? undefined : new JwtCheck(settings.jwt);
    // On this machine what may be written, the map and its master switch say; from elsewhere nobody unknown writes.
    this.anybody = { name: ANYBODY, role: isLoopback(settings.host) ? 'operator' : 'viewer', approves: false };
    this.attempts = new RequestRate(settings.limits.requestsPerSecond);
    this.log = log;
  }

  /** Whether a request says who it is from. */
  hasCredentials({ authorization, certificate }: Credentials): boolean {
    return authorization !== undefined || (certificate !== undefined && this.byCertificate(certificate) !== undefined);
  }

  async check(credentials: Credentials): Promise<Verdict> {
    if (!this.isOn) return { caller: this.anybody };
    const [, token] = /^Bearer +(\S+)$/i.exec(credentials.authorization ?? '') ?? [];
    if (credentials.authorization === undefined && credentials.certificate !== undefined) {
      const caller = this.byCertificate(credentials.certificate);
      return caller === undefined ? this.fail(credentials.address, 'a bearer token is needed beside the certificate') : { caller };
    }
    if (token === undefined) return this.fail(credentials.address, 'no bearer token');
    const entry = this.byToken(token);
    if (entry !== undefined) return { caller: entry };
    if (this.jwt === undefined) return this.fail(credentials.address, 'no token of the map');
    // A signature takes long to check: where many were wrong, no more of them are checked than a caller may send anyway.
    if (this.hasFailedOften(credentials.address) && !this.attempts.take(credentials.address)) return { status: 429 };
    const found = await this.jwt.check(token);
    if ('caller' in found) return found;
    if (found.status === 401) return this.fail(credentials.address, found.why);
    this.log.warn({ why: found.why }, `a token of a caller at ${credentials.address} could not be accepted`);
    return { status: found.status };
  }

  private byToken(token: string): TokenEntry | undefined {
    const hash = createHash('sha256').update(token).digest();
    // Every entry is compared, so that the time tells nothing about which.
    return this.tokens.filter(entry => timingSafeEqual(entry.hash, hash))[0]?.entry;
  }

  private byCertificate({ fingerprint256, subject }: PeerCertificate): Caller | undefined {
    const { certificates } = this.settings;
    // A subject that names itself twice is nobody's name.
    const name: unknown = subject?.CN;
    const known = certificates.find(one => one.fingerprint === fingerprint256 || (one.commonName !== undefined && one.commonName === name));
    if (known !== undefined) return known;
    if (!areKnownByCertificate(this.settings)) return undefined;
    const label = escapeControls(typeof name === 'string' ? name : fingerprint256).slice(0, MAX_NAME);
    return { name: `${BY_CERTIFICATE}${label}`, role: 'viewer', approves: false };
  }

  private hasFailedOften(address: string): boolean {
    const failed = this.failures.get(address);
    return failed !== undefined && failed.count > MAX_FAILURES && performance.now() - failed.since <= WINDOW;
  }

  /** Wrong ones of an address that had too many are not even told that they are wrong; a right one is always served. */
  private fail(address: string, why: string): { readonly status: 401 | 429 } {
    const now = performance.now();
    const known = this.failures.get(address);
    const failed = known === undefined || now - known.since > WINDOW ? { count: 0, since: now } : known;
    failed.count++;
    this.failures.set(address, failed);
    const [oldest] = this.failures.keys();
    if (this.failures.size > MAX_ADDRESSES && oldest !== undefined) this.failures.delete(oldest);
    if (failed.count === 1) this.log.warn({ why }, `a caller at ${address} was not known`);
    else if (failed.count === MAX_FAILURES) this.log.warn({ why }, `a caller at ${address} was wrong too often, and waits a minute`);
    return { status: failed.count > MAX_FAILURES ? 429 : 401 };
  }
}

/** Whether a caller who was known before is known still, by the same name and in the same role. @param before what was in force */
export function isKnown({ name, role }: Principal, now: HttpSettings, before: HttpSettings): boolean {
  const entry = [...now.tokens, ...now.certificates].find(one => one.name === name);
  if (entry !== undefined) return entry.role === role && !entry.approves;
  if (name === ANYBODY) return !hasAuthentication(now);
  // A certificate may name itself anything behind that; names of the map have neither : nor @.
  if (areKnownByCertificate(before)) return name.startsWith(BY_CERTIFICATE) && areKnownByCertificate(now);
  return name.includes('@') && now.jwt !== undefined && isDeepStrictEqual(now.jwt, before.jwt);
}
