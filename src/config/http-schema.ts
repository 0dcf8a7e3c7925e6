import { count, type JsonSchema, object, size } from '../model/json-schema.ts';
import { DEFAULT_LIMITS } from '../model/limits.ts';
import { ROLES } from '../model/role.ts';

/** Signatures with a public key: a shared secret would let every holder make tokens, and `none` everybody. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const;
export const DEFAULT_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'];

const caller = {
  name: {
    pattern: '^[a-z][a-z0-9-]*$',
    maxLength: 48,
    expected: 'a name of a-z, 0-9 and -',
    description: 'Names the caller in the record',
  },
  role: { enum: [...ROLES], description: 'What it may do' },
  approves: { type: 'boolean', default: false, description: 'A person, who decides about writes that wait, and opens no MCP' },
};

const tokens: JsonSchema = {
  type: 'array',
  minItems: 1,
  items: object(
    {
      ...caller,
      sha256: {
        type: 'string',
        pattern: '^[0-9a-f]{64}$',
        expected: 'a hash as `fieldbridge token` makes it',
        description: 'Hash of the token',
      },
    },
    ['name', 'role', 'sha256'],
  ),
  description: 'Bearer tokens, as `fieldbridge token` makes them; nobody calls without one then',
};

const certificates: JsonSchema = {
  type: 'array',
  minItems: 1,
  items: object(
    {
      ...caller,
      common_name: { type: 'string', minLength: 1, description: "Common name of the certificate's subject" },
      fingerprint: {
        type: 'string',
        pattern: '^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$',
        expected: 'a SHA-256 of 64 hexadecimal digits, as `openssl x509 -fingerprint -sha256` prints it',
        description: 'SHA-256 of the certificate',
      },
    },
    ['name', 'role'],
    { exactlyOne: ['common_name', 'fingerprint'] },
  ),
  description: 'Client certificates by name; `tls.client_ca` says who signs them',
};

const jwt: JsonSchema = object(
  {
    issuer: { type: 'string', minLength: 1, description: 'Who makes the tokens: exactly what stands in their claim iss' },
    audience: {
      type: 'string',
      minLength: 1,
      description: 'Whom the tokens are made for: the address of the MCP endpoint, as clients reach it',
    },
    jwks: {
      type: 'string',
      pattern: '^https?://',
      expected: 'an address such as https://id.example/jwks.json',
      description: "Address of the authorization server's keys",
    },
    role_claim: { type: 'string', minLength: 1, default: 'role', description: 'Claim that names the role; with dots where it lies deeper' },
    algorithms: {
      type: 'array',
      minItems: 1,
      items: { enum: [...ALGORITHMS] },
      default: DEFAULT_ALGORITHMS,
      description: 'Signatures that are accepted',
    },
  },
  ['issuer', 'audience', 'jwks'],
  { description: 'Tokens of an OAuth 2.1 authorization server' },
);

const certificateFile = (description: string): JsonSchema => ({ type: 'string', minLength: 1, fileContent: true, description });

export const auth: JsonSchema = object({ tokens, certificates, jwt });

/** The grammar of `http`. */
export const http: JsonSchema = object(
  {
    listen: {
      type: 'string',
      pattern: '^(\\[[0-9a-fA-F:.]+\\]|[^:\\s\\[\\]]+):\\d{1,5}$',
      expected: 'an address and a port such as 127.0.0.1:8502',
      default: '127.0.0.1:8502',
      description: 'Address and port; one that other machines reach needs `auth` and `tls`',
    },
    path: {
      type: 'string',
      pattern: '^/[A-Za-z0-9._~/-]*$',
      expected: 'a path such as /mcp',
      default: '/mcp',
      description: 'The path of the MCP endpoint',
    },
    allowed_hosts: {
      type: 'array',
      items: { type: 'string' },
      description: 'Host names that a request may name besides the loopback ones and the address in `listen`',
    },
    allowed_origins: {
      type: 'array',
      items: { type: 'string' },
      description: 'Host names of web pages that may call the bridge from a browser',
    },
    limits: object(
      {
        body: size('Largest request', '64kB'),
        connections: count('Most connections at a time', DEFAULT_LIMITS.connections),
        sessions: count('Most sessions of clients older than 2026-07-28', DEFAULT_LIMITS.sessions),
        streams: count('Most streams of notifications at a time', DEFAULT_LIMITS.streams),
        streams_per_principal: count('Most streams of one caller', DEFAULT_LIMITS.streamsPerPrincipal),
        uris_per_stream: count('Most resources that one connection subscribes to', DEFAULT_LIMITS.urisPerStream),
        unsent: size('Bytes that wait for a client that does not read; beyond it, it is cut', '1MB'),
        requests_per_second: count(
          'Most requests of one caller in a second, after twice as many at once',
          DEFAULT_LIMITS.requestsPerSecond,
        ),
      },
      [],
      { description: 'Bounds on clients' },
    ),
    tls: object(
      {
        cert: certificateFile("File of the listener's certificate, with those between it and its authority, in PEM"),
        key: certificateFile('File of its key, in PEM'),
        client_ca: certificateFile('File of the authority that signs the certificates of clients; nobody calls without one then'),
      },
      ['cert', 'key'],
      { description: 'Certificate and key of the listener; new ones are taken up as their files change' },
    ),
    auth: { $ref: '#/$defs/auth', description: 'Who may call the bridge' },
    insecure: {
      type: 'boolean',
      default: false,
      description:
        'Listens where other machines can reach it although authentication or TLS is missing; without authentication they only read',
    },
  },
  [],
);
