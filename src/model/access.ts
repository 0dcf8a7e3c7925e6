import type { HttpLimits } from './limits.ts';
import type { Role } from './role.ts';

/** Somebody whom the map knows by name. */
export interface CallerEntry {
  readonly name: string;
  readonly role: Role;
  /** A person, who decides about writes that wait, and opens no MCP. */
  readonly approves: boolean;
}

/** Who calls, as it was found out. */
export interface Caller extends CallerEntry {
  /** Milliseconds since 1970 from which the credential says nothing any more. */
  readonly expires?: number;
}

/** A bearer token as the map knows it: by its hash alone. */
export interface TokenEntry extends CallerEntry {
  /** SHA-256 of the token's text, in hexadecimal. */
  readonly sha256: string;
}

/** A client certificate, known by its subject's common name or by its fingerprint. */
export interface CertificateEntry extends CallerEntry {
  readonly commonName?: string;
  /** SHA-256 of the certificate, in hexadecimal of upper case with colons. */
  readonly fingerprint?: string;
}

/** Tokens of an authorization server (RFC 9068, RFC 8725). */
export interface JwtSettings {
  readonly issuer: string;
  readonly audience: string;
  /** Address of the keys. */
  readonly jwks: string;
  /** Claim that names the role, with dots where it lies deeper. */
  readonly roleClaim: string;
  readonly algorithms: readonly string[];
}

/** Texts in PEM, and the files that they came from, for those that are renewed while the bridge runs. */
export interface TlsSettings {
  readonly cert: string;
  readonly key: string;
  /** Who signs the certificates of clients; then nobody calls without one. */
  readonly clientCa?: string;
  readonly files: { readonly cert?: string; readonly key?: string; readonly clientCa?: string };
}

export interface HttpSettings {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly limits: HttpLimits;
  readonly tls?: TlsSettings;
  readonly tokens: readonly TokenEntry[];
  readonly certificates: readonly CertificateEntry[];
  readonly jwt?: JwtSettings;
}

/** Who is called so: everybody, where nobody need say who it is. */
export const ANYBODY = 'http';
/** How the name of somebody begins who is known by a certificate alone. */
export const BY_CERTIFICATE = 'certificate:';

export const hasAuthentication = ({ tokens, jwt, tls }: HttpSettings): boolean =>
  tokens.length > 0 || jwt !== undefined || tls?.clientCa !== undefined;

/** Whether a certificate alone says who calls: only where callers are known by nothing else. */
export const areKnownByCertificate = ({ tokens, certificates, jwt }: HttpSettings): boolean =>
  certificates.length === 0 && tokens.length === 0 && jwt === undefined;

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** Whether a listener is on every address of the machine. */
export const isEveryAddress = (host: string): boolean => host === '0.0.0.0' || host === '::';

/** The address of the MCP endpoint. */
export function endpointOf({ host, port, path, tls }: Pick<HttpSettings, 'host' | 'port' | 'path' | 'tls'>): string {
  return `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}${path}`;
}
