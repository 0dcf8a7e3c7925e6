import { createSecureContext } from 'node:tls';
import {
  type CallerEntry,
  type CertificateEntry,
  type HttpSettings,
  hasAuthentication,
  isEveryAddress,
  isLoopback,
  type JwtSettings,
  type TlsSettings,
  type TokenEntry,
} from '../model/access.ts';
import { wordsOf } from '../model/errors.ts';
import { DEFAULT_LIMITS, type HttpLimits } from '../model/limits.ts';
import { type ConfigPath, mapOf, type RawMap } from '../model/protocol.ts';
import type { Role } from '../model/role.ts';
import { parseSize } from '../model/size.ts';
import { DEFAULT_ALGORITHMS } from './http-schema.ts';

type Report = (path: ConfigPath, message: string, at?: 'key' | 'value') => void;

const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];

/** What the listener serves besides MCP. */
const TAKEN = /^\/(healthz|readyz|metrics|approvals|\.well-known)(\/|$)/;

/** @param fileOf the file that the text at a path came from */
export function compileHttp(raw: RawMap, fileOf: (path: ConfigPath) => string | undefined, report: Report, warn: Report): HttpSettings {
  const [, bracketed, plain, portText] = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(String(raw.listen ?? '127.0.0.1:8502')) ?? [];
  const host = bracketed ?? plain ?? '127.0.0.1';
  const port = Number(portText ?? 8502);
  if (port > 65535) report(['http', 'listen'], `a port is at most 65535; got ${port}`);
  if (TAKEN.test(String(raw.path)))
    report(['http', 'path'], `${String(raw.path)} is served for something else already; choose another path such as /mcp`);
  const auth = mapOf(raw.auth);
  const tls = compileTls(raw.tls, fileOf, report);
  const tokens = compileTokens(auth.tokens, report);
  const certificates = compileCertificates(auth.certificates, tokens, report);
  if (certificates.length > 0 && tls !== undefined && tls.clientCa === undefined)
    report(['http', 'auth', 'certificates'], 'who signs the certificates of clients has to be said in http.tls.client_ca', 'key');
  if (certificates.length > 0 && raw.tls === undefined)
    report(['http', 'auth', 'certificates'], 'certificates of clients need http.tls with client_ca', 'key');
  const settings: HttpSettings = {
    host,
    port,
    path: String(raw.path ?? '/mcp'),
    allowedHosts: [...textsOf(raw.allowed_hosts), ...(isLoopback(host) || isEveryAddress(host) ? [] : [host])],
    allowedOrigins: textsOf(raw.allowed_origins),
    limits: compileLimits(mapOf(raw.limits)),
    ...(tls !== undefined && { tls }),
    tokens,
    certificates,
    ...compileJwt(auth.jwt, report),
  };
  if (!isLoopback(host)) checkExposure(raw, settings, report, warn);
  return settings;
}

/** What other machines can reach is protected, or said to be unprotected by whoever wrote the map. */
function checkExposure(raw: RawMap, settings: HttpSettings, report: Report, warn: Report): void {
  const { host, port } = settings;
  // What is mistaken in itself was told; it is not missing.
  const lacks = [
    ...(raw.auth === undefined && !hasAuthentication(settings) ? ['authentication (http.auth)'] : []),
    ...(raw.tls === undefined ? ['TLS (http.tls)'] : []),
  ].join(' and ');
  if (lacks !== '' && raw.insecure === true)
    warn(
      ['http', 'insecure'],
      `${host} can be reached from other machines without ${lacks}: whoever can, reads the plant${raw.tls === undefined ? ', and what is sent' : ''}`,
    );
  else if (lacks !== '')
    report(
      ['http', 'listen'],
      `${host} can be reached from other machines, which needs ${lacks}; add it, or listen on a loopback address such as 127.0.0.1:${port}, or write \`insecure: true\` where something else protects it`,
    );
  if (isEveryAddress(host) && settings.allowedHosts.length === 0)
    warn(
      ['http', 'listen'],
      'a request names the host that it is for, and only loopback names are accepted; list the names of this machine in http.allowed_hosts',
    );
}

function compileTls(raw: unknown, fileOf: (path: ConfigPath) => string | undefined, report: Report): TlsSettings | undefined {
  const { cert, key, client_ca } = mapOf(raw);
  if (typeof cert !== 'string' || typeof key !== 'string') return undefined;
  const at = (name: string): string | undefined => fileOf(['http', 'tls', name]);
  const [certFile, keyFile, caFile] = [at('cert'), at('key'), at('client_ca')];
  const settings: TlsSettings = {
    cert,
    key,
    ...(typeof client_ca === 'string' && { clientCa: client_ca }),
    files: {
      ...(certFile !== undefined && { cert: certFile }),
      ...(keyFile !== undefined && { key: keyFile }),
      ...(caFile !== undefined && { clientCa: caFile }),
    },
  };
  try {
    createSecureContext({ cert, key, ca: settings.clientCa });
  } catch (error) {
    report(['http', 'tls'], `certificate and key can not be used: ${wordsOf(error)}`, 'key');
    return undefined;
  }
  return settings;
}

function compileTokens(raw: unknown, report: Report): readonly TokenEntry[] {
  const names = new Set<string>();
  return (Array.isArray(raw) ? raw : []).map((entry, i) => {
    const { sha256 } = mapOf(entry);
    return { ...compileCaller(entry, names, ['http', 'auth', 'tokens', i], report), sha256: String(sha256) };
  });
}

function compileCertificates(raw: unknown, known: readonly CallerEntry[], report: Report): readonly CertificateEntry[] {
  const names = new Set(known.map(({ name }) => name));
  return (Array.isArray(raw) ? raw : []).map((entry, i) => {
    const { common_name, fingerprint } = mapOf(entry);
    return {
      ...compileCaller(entry, names, ['http', 'auth', 'certificates', i], report),
      ...(common_name !== undefined && { commonName: String(common_name) }),
      ...(fingerprint !== undefined && {
        fingerprint: String(fingerprint).replaceAll(':', '').toUpperCase().match(/../g)?.join(':') ?? '',
      }),
    };
  });
}

function compileCaller(raw: unknown, names: Set<string>, path: ConfigPath, report: Report): CallerEntry {
  const { name, role, approves } = mapOf(raw);
  if (names.has(String(name))) report([...path, 'name'], `${String(name)} is the name of another caller already`);
  names.add(String(name));
  return { name: String(name), role: role as Role, approves: approves === true };
}

function compileJwt(raw: unknown, report: Report): { jwt?: JwtSettings } {
  const { issuer, audience, jwks, role_claim, algorithms } = mapOf(raw);
  if (typeof issuer !== 'string' || typeof audience !== 'string' || typeof jwks !== 'string') return {};
  const path = ['http', 'auth', 'jwt', 'jwks'];
  if (!URL.canParse(jwks)) report(path, 'expected an address such as https://id.example/jwks.json');
  else if (new URL(jwks).protocol === 'http:' && !isLoopback(new URL(jwks).hostname.replace(/^\[|\]$/g, '')))
    report(path, 'keys that came without TLS could be anybody’s; an address with https is expected');
  return {
    jwt: {
      issuer,
      audience,
      jwks,
      roleClaim: String(role_claim ?? 'role'),
      algorithms: algorithms === undefined ? DEFAULT_ALGORITHMS : textsOf(algorithms),
    },
  };
}

function compileLimits(raw: RawMap): HttpLimits {
  const number = (value: unknown, byDefault: number): number => (value === undefined ? byDefault : Number(value));
  return {
    body: parseSize(raw.body) ?? DEFAULT_LIMITS.body,
    connections: number(raw.connections, DEFAULT_LIMITS.connections),
    sessions: number(raw.sessions, DEFAULT_LIMITS.sessions),
    streams: number(raw.streams, DEFAULT_LIMITS.streams),
    streamsPerPrincipal: number(raw.streams_per_principal, DEFAULT_LIMITS.streamsPerPrincipal),
    urisPerStream: number(raw.uris_per_stream, DEFAULT_LIMITS.urisPerStream),
    unsent: parseSize(raw.unsent) ?? DEFAULT_LIMITS.unsent,
    requestsPerSecond: number(raw.requests_per_second, DEFAULT_LIMITS.requestsPerSecond),
  };
}
