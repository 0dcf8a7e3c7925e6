import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose';
import type { Caller, JwtSettings } from '../model/access.ts';
import { wordsOf } from '../model/errors.ts';
import { ROLES } from '../model/role.ts';
import { escapeControls } from '../model/text.ts';

const KEYS = {
  /** A key that the authorization server has withdrawn is not accepted for longer. */
  cacheMaxAge: 5 * 60_000,
  /** Between two looks for a key that is not known yet. */
  cooldownDuration: 1000,
  timeoutDuration: 5000,
};
/** Seconds by which clocks may differ. */
const TOLERANCE = 5;
const MAX_NAME = 100;

type Found = { readonly caller: Caller } | { readonly status: 401 | 403 | 503; readonly why: string };

/** Tokens of an authorization server (RFC 9068): signature, issuer, audience, time, and the role that they give. */
export class JwtCheck {
  private readonly settings: JwtSettings;
  private readonly keys: ReturnType<typeof createRemoteJWKSet>;
  private readonly realm: string;

  constructor(settings: JwtSettings) {
    this.settings = settings;
    this.keys = createRemoteJWKSet(new URL(settings.jwks), KEYS);
    this.realm = URL.canParse(settings.issuer) ? new URL(settings.issuer).host : settings.issuer;
  }

  async check(token: string): Promise<Found> {
    const { issuer, audience, algorithms } = this.settings;
    let payload: JWTPayload;
    try {
      ({ payload } = await jwtVerify(token, this.keys, {
        issuer,
        audience,
        algorithms: [...algorithms],
        clockTolerance: TOLERANCE,
        requiredClaims: ['exp'],
      }));
    } catch (error) {
      // What is wrong with a token is the caller's fault; that its keys can not be had is not.
      const isTokens = error instanceof errors.JOSEError && !(error instanceof errors.JWKSTimeout) && !isOfKeys(error);
      return isTokens
        ? { status: 401, why: `a token of an authorization server: ${error.message}` }
        : { status: 503, why: `the keys of ${issuer} can not be had: ${wordsOf(error)}` };
    }
    const who = payload.sub ?? payload.client_id ?? payload.azp;
    if (typeof who !== 'string' || who === '') return { status: 401, why: 'a token that names nobody: it has no sub' };
    const said = claimAt(payload, this.settings.roleClaim);
    const roles = Array.isArray(said) ? (said as unknown[]) : typeof said === 'string' ? said.split(' ') : [];
    const role = ROLES.findLast(one => roles.includes(one));
    // Names of the map have no @.
    const name = `${escapeControls(who).slice(0, MAX_NAME)}@${this.realm}`;
    if (role === undefined)
      return { status: 403, why: `the token of ${name} has none of the roles ${ROLES.join(', ')} in its claim ${this.settings.roleClaim}` };
    return { caller: { name, role, approves: false, expires: ((payload.exp ?? 0) + TOLERANCE) * 1000 } };
  }
}

/** An answer of the authorization server that holds no keys. */
const isOfKeys = (error: errors.JOSEError): boolean =>
  error instanceof errors.JWKSInvalid || (error.code === 'ERR_JOSE_GENERIC' && error.message.includes('JSON Web Key Set'));

/** A claim by its name, or by the names on the way to it. */
function claimAt(payload: JWTPayload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name];
  return name
    .split('.')
    .reduce<unknown>(
      (value, key) => (typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as JWTPayload)[key] : undefined),
      payload,
    );
}
