import { createHash, createHmac, X509Certificate } from 'node:crypto';
import { copyFileSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isKnown } from '../../src/http/auth.ts';
import { readConfig } from '../../src/protocols.ts';
import { AUDIENCE, AuthorizationServer, ISSUER } from '../support/authorization-server.ts';
import { deviceMap, TestBridge, temporaryFolder, until, writeYaml } from '../support/bridge.ts';
import { certificates } from '../support/certificates.ts';
import { EventReader, initialize, messages, modern, open, openSession, rpc, send } from '../support/raw-http.ts';
import { safePlant } from '../support/safe-plant.ts';
import { needsSystem } from '../support/system.ts';

const EMPTY = { connections: {}, devices: {} };
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const METADATA = 'https://bridge.example/.well-known/oauth-protected-resource/mcp';

async function withServer(more: object = {}) {
  const server = await AuthorizationServer.start();
  const bridge = await TestBridge.start({ ...EMPTY, http: { auth: { jwt: server.settings(more) } } });
  const status = async (token: string) => (await send(bridge.endpoint, { headers: bearer(token), body: initialize() })).status;
  return { server, bridge, status };
}

describe('tokens of an authorization server', () => {
  test('a right one is served; wrong ones, however wrong, get one and the same answer', async () => {
    const { server, bridge, status } = await withServer();
    expect(await status(await server.token())).toBe(200);
    const now = Math.floor(Date.now() / 1000);
    const parts = (header: object, claims: object) =>
      [header, claims].map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    const claims = { sub: 'assistant', role: 'engineer', iss: ISSUER, aud: AUDIENCE, exp: now + 60 };
    const { privateKey } = await generateKeyPair('ES256');
    const foreign = await new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'key-0' }).sign(privateKey);
    const confused = parts({ alg: 'HS256', kid: 'key-0' }, claims);
    const secret = JSON.stringify(server.publicKey);
    const wrong = [
      await server.token({}, -60),
      await server.token({ aud: 'https://other.example/mcp' }),
      await server.token({ iss: 'https://evil.example' }),
      await server.token({ nbf: now + 600 }),
      await server.endless(),
      `${parts({ alg: 'none' }, claims)}.`,
      `${parts({ alg: 'none', kid: 'key-0' }, claims)}.AA`,
      `${confused}.${createHmac('sha256', secret).update(confused).digest('base64url')}`,
      foreign,
    ];
    const replies = [];
    for (const token of wrong) replies.push(await send(bridge.endpoint, { headers: bearer(token), body: initialize() }));
    expect(new Set(replies.map(({ status: code, body }) => `${code} ${body}`)).size).toBe(1);
    for (const { status: code, headers } of replies)
      expect([code, headers['www-authenticate']]).toEqual([401, `Bearer resource_metadata="${METADATA}"`]);
    // Wrong ones of the same address do not keep a right one out.
    for (let i = 0; i < 5; i++) await status('garbage');
    expect(await status('garbage')).toBe(429);
    expect(await status(await server.token())).toBe(200);
  });

  test('the role is where the map says: a word, words, a list, deeper; without one there is no way in', async () => {
    const { server, bridge, status } = await withServer({ role_claim: 'realm_access.roles' });
    const role = async (roles: unknown) => {
      const token = await server.token({ role: 'engineer', realm_access: { roles } });
      const opened = await send(bridge.endpoint, { headers: bearer(token), body: initialize() });
      return [opened.status, opened.headers['www-authenticate']];
    };
    for (const roles of ['viewer', 'offline_access viewer', ['x', 'engineer'], ['viewer', 'operator']])
      expect((await role(roles))[0]).toBe(200);
    for (const roles of [undefined, 'admin', [], { viewer: true }, 5]) {
      const [code, challenge] = await role(roles);
      expect([code, challenge]).toEqual([403, `Bearer resource_metadata="${METADATA}", error="insufficient_scope"`]);
    }
    expect(await status(await server.token({ 'realm_access.roles': 'viewer' }))).toBe(200);
  });

  test('who it names stands in the record, with the role that it gives', async () => {
    const server = await AuthorizationServer.start();
    const token = await server.token({ sub: 'anna', role: 'operator' });
    const { bridge, audit } = await safePlant(
      { level: { holding: 0, write: {} }, deep: { holding: 1, write: { role: 'engineer' } } },
      {},
      { http: { auth: { jwt: server.settings() } }, token },
    );
    const write = async (point: string, claims: JWTPayload) => {
      const params = { name: 'write_point', arguments: { point, value: 5, reason: 'test' } };
      const call = modern('tools/call', params, bearer(await server.token(claims)));
      return messages(await send(bridge.endpoint, call))[0]?.result?.structuredContent;
    };
    expect(await write('d.level', { sub: 'anna', role: 'viewer' })).toMatchObject({ status: 'refused', rule: 'role' });
    expect(await write('d.deep', { sub: 'anna', role: 'operator' })).toMatchObject({ status: 'refused', rule: 'role' });
    expect(await write('d.level', { sub: 'anna', role: 'operator' })).toMatchObject({ status: 'written' });
    expect(audit().map(({ principal, role }) => `${principal} ${role}`)).toEqual([
      'anna@id.example viewer',
      'anna@id.example operator',
      'anna@id.example operator',
      'anna@id.example operator',
    ]);
  });

  test('new keys are found, keys are not asked for with every token, and while they can not be had that is said', async () => {
    const { server, bridge, status } = await withServer();
    server.isUp = false;
    const token = await server.token();
    const away = await send(bridge.endpoint, { headers: bearer(token), body: initialize() });
    expect([away.status, away.headers['retry-after']]).toEqual([503, '5']);
    server.isUp = true;
    expect(await status(token)).toBe(200);
    const asked = server.asked;
    for (let i = 0; i < 5; i++) expect(await status(token)).toBe(200);
    expect(server.asked).toBe(asked);
    await server.rotate();
    const renewed = await server.token();
    await until(
      () => status(renewed),
      code => code === 200,
    );
    expect(await status(token)).toBe(200);
  });

  test('where to get one is told to everybody (RFC 9728)', async () => {
    const { bridge } = await withServer();
    for (const path of ['/.well-known/oauth-protected-resource', '/.well-known/oauth-protected-resource/mcp']) {
      const reply = await send(bridge.endpoint, { path, method: 'GET' });
      expect(reply.status).toBe(200);
      expect(JSON.parse(reply.body)).toEqual({ resource: AUDIENCE, authorization_servers: [ISSUER], bearer_methods_supported: ['header'] });
    }
    for (const audience of ['api://bridge', 'urn:bridge', 'bridge']) {
      const { server, bridge: named, status } = await withServer({ audience });
      expect(await status(await server.token({ aud: audience }))).toBe(200);
      const { status: code, headers } = await send(named.endpoint, { body: initialize() });
      expect([code, headers['www-authenticate']]).toEqual([401, 'Bearer']);
      const told = await send(named.endpoint, { path: '/.well-known/oauth-protected-resource/mcp', method: 'GET' });
      expect(JSON.parse(told.body)).toMatchObject({ resource: audience });
    }
    const without = await TestBridge.start(EMPTY);
    expect((await send(without.endpoint, { path: '/.well-known/oauth-protected-resource', method: 'GET' })).status).toBe(404);
  });

  test('a stream does not outlive the token that opened it', async () => {
    const { server, bridge } = await withServer();
    // Clocks may differ by five seconds.
    const token = await server.token({}, -3);
    const stream = new EventReader(
      await open(bridge.endpoint, modern('subscriptions/listen', { notifications: { toolsListChanged: true } }, bearer(token))),
    );
    expect([stream.status, stream.ended]).toEqual([200, false]);
    await until(
      () => stream.ended,
      ended => ended,
    );
  });
});

describe.skipIf(needsSystem('openssl'))('TLS', () => {
  function files() {
    const folder = certificates(temporaryFolder());
    const at = (name: string) => join(folder, name);
    const read = (name: string) => readFileSync(at(name), 'utf8');
    const trusting = { ca: read('ca.pem'), servername: 'bridge.example' };
    return { at, read, trusting, asDevice: { ...trusting, cert: read('device.pem'), key: read('device.key') } };
  }
  const common = { allowed_hosts: ['bridge.example'] };

  test('is spoken where the map has a certificate, in 1.2 and later, with the headers that browsers heed', async () => {
    const { at, trusting } = files();
    const tls = { cert: at('bridge.pem'), key: { file: at('bridge.key') } };
    const bridge = await TestBridge.start({ ...EMPTY, http: { ...common, tls } });
    expect(bridge.endpoint).toMatch(/^https:/);
    const reply = await send(bridge.endpoint, { tls: trusting, body: initialize() });
    expect(reply.status).toBe(200);
    expect(reply.headers).toMatchObject({
      'strict-transport-security': 'max-age=31536000',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'cache-control': expect.stringMatching(/^no-(store|cache)/),
    });
    await expect(send(bridge.endpoint, { tls: { ...trusting, maxVersion: 'TLSv1.1' }, body: initialize() })).rejects.toThrow();
    await expect(send(bridge.endpoint.replace('https', 'http'), { body: initialize() })).rejects.toThrow();
  });

  test('where an authority for clients is named, nobody is heard without its certificate, which alone makes a viewer', async () => {
    const { at, trusting, asDevice } = files();
    const tls = { cert: at('bridge.pem'), key: at('bridge.key'), client_ca: at('ca.pem') };
    const bridge = await TestBridge.start({ ...EMPTY, http: { ...common, tls } });
    expect((await send(bridge.endpoint, { tls: asDevice, body: initialize() })).status).toBe(200);
    await expect(send(bridge.endpoint, { tls: trusting, body: initialize() })).rejects.toThrow();
    const other = join(certificates(temporaryFolder()), 'device');
    const foreign = { ...trusting, cert: readFileSync(`${other}.pem`, 'utf8'), key: readFileSync(`${other}.key`, 'utf8') };
    await expect(send(bridge.endpoint, { tls: foreign, body: initialize() })).rejects.toThrow();
  });

  test('certificates by name or fingerprint have roles; one that is not listed, and a wrong token beside a right one, do not get in', async () => {
    const { at, read, asDevice, trusting } = files();
    const asBridge = { ...trusting, cert: read('bridge.pem'), key: read('bridge.key') };
    const tls = { cert: at('bridge.pem'), key: at('bridge.key'), client_ca: at('ca.pem') };
    const entries = [{ name: 'panel', role: 'operator', common_name: 'device.example' }];
    const listed = await TestBridge.start({ ...EMPTY, http: { ...common, tls, auth: { certificates: entries } } });
    expect((await send(listed.endpoint, { tls: asDevice, body: initialize() })).status).toBe(200);
    expect((await send(listed.endpoint, { tls: asBridge, body: initialize() })).status).toBe(401);
    expect((await send(listed.endpoint, { tls: asDevice, headers: bearer('wrong'), body: initialize() })).status).toBe(401);
    const fingerprint = new X509Certificate(read('bridge.pem')).fingerprint256.replaceAll(':', '').toLowerCase();
    const byPrint = [{ name: 'panel', role: 'viewer', fingerprint }];
    const tokens = [{ name: 'desk', role: 'viewer', sha256: sha256('secret') }];
    const both = await TestBridge.start({ ...EMPTY, http: { ...common, tls, auth: { certificates: byPrint, tokens } } });
    expect((await send(both.endpoint, { tls: asBridge, body: initialize() })).status).toBe(200);
    expect((await send(both.endpoint, { tls: asDevice, body: initialize() })).status).toBe(401);
    expect((await send(both.endpoint, { tls: asDevice, headers: bearer('secret'), body: initialize() })).status).toBe(200);
  });

  test('a renewed certificate is taken up by itself, and one without its key is not', async () => {
    const { at, trusting } = files();
    const bridge = await TestBridge.start({ ...EMPTY, http: { ...common, tls: { cert: at('bridge.pem'), key: at('bridge.key') } } });
    const shown = async () => {
      const response = await open(bridge.endpoint, {
        tls: { ...trusting, rejectUnauthorized: false } as typeof trusting,
        body: initialize(),
      });
      return (response.socket as unknown as { getPeerCertificate(): { subject: { CN: string } } }).getPeerCertificate().subject.CN;
    };
    expect(await shown()).toBe('bridge.example');
    copyFileSync(at('device.pem'), at('bridge.pem'));
    await new Promise(resolve => setTimeout(resolve, 2500));
    expect(await shown()).toBe('bridge.example');
    copyFileSync(at('device.key'), at('bridge.key'));
    await until(shown, name => name === 'device.example');
  });
});

describe('bounds', () => {
  const tokens = ['a', 'b'].map(name => ({ name, role: 'viewer', sha256: sha256(name) }));
  const start = (limits: object) => TestBridge.start({ ...EMPTY, http: { limits, auth: { tokens } } });

  test('one caller has so many streams, of either kind, and leaves the others theirs', async () => {
    const bridge = await start({ streams_per_principal: 2 });
    const listen = async (who: string) => {
      const call = modern('subscriptions/listen', { notifications: { toolsListChanged: true } }, bearer(who));
      const stream = await open(bridge.endpoint, call);
      return stream.headers['content-type']?.startsWith('text/event-stream') === true;
    };
    const session = await (async () => {
      const opened = await send(bridge.endpoint, { headers: bearer('a'), body: initialize() });
      return { ...bearer('a'), 'mcp-session-id': String(opened.headers['mcp-session-id']), 'mcp-protocol-version': '2025-11-25' };
    })();
    expect(await listen('a')).toBe(true);
    expect((await open(bridge.endpoint, { method: 'GET', headers: session })).statusCode).toBe(200);
    expect(await listen('a')).toBe(false);
    expect(await listen('b')).toBe(true);
    const again = await send(bridge.endpoint, { headers: bearer('a'), body: initialize() });
    const third = { ...session, 'mcp-session-id': String(again.headers['mcp-session-id']) };
    const refused = await send(bridge.endpoint, { method: 'GET', headers: third });
    expect([refused.status, messages(refused)[0]?.error?.message]).toEqual([503, 'a has 2 streams already']);
  });

  test('one caller asks so often, is told when it was too often, and does not slow down the others', async () => {
    const bridge = await start({ requests_per_second: 5 });
    const ask = async (who: string) => await send(bridge.endpoint, { headers: bearer(who), body: rpc('ping') });
    const replies = [];
    for (let i = 0; i < 14; i++) replies.push(await ask('a'));
    expect(replies.slice(0, 10).every(({ status }) => status === 400)).toBe(true);
    const refused = replies.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(2);
    expect(refused[0]?.headers['retry-after']).toBe('1');
    expect((await ask('b')).status).toBe(400);
    await until(
      () => ask('a'),
      ({ status }) => status === 400,
    );
  });
});

test('who listens for other machines without saying who may call is read only', async () => {
  const map = deviceMap(9, { level: { holding: 0, write: {} } }, { safety: { writes: 'enabled' } });
  const bridge = await TestBridge.start({ ...map, http: { listen: '0.0.0.0:0', insecure: true } });
  const endpoint = bridge.endpoint.replace('0.0.0.0', '127.0.0.1');
  const listed = await send(endpoint, { headers: await openSession(endpoint), body: rpc('tools/list') });
  expect(listed.body).toContain('"read_points"');
  expect(listed.body).not.toContain('"write_point"');
});

test('whoever is answered on a connection keeps it, also where more was asked there at once', async () => {
  const map = deviceMap(9, { p: { holding: 0 } });
  const bridge = await TestBridge.start({ ...map, http: { limits: { connections: 1 } } });
  const { port } = new URL(bridge.endpoint);
  const dial = () => {
    const socket = connect({ port: Number(port), host: '127.0.0.1' });
    onTestFinished(() => void socket.destroy());
    const heard = { text: '', isOver: false };
    socket.on('data', chunk => {
      heard.text += chunk.toString();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      heard.isOver = true;
    });
    return { socket, heard };
  };
  const { headers = {}, body = '' } = modern('tools/call', { name: 'wait_for', arguments: { points: ['d.p'], timeout: 1 } });
  const all = { host: 'localhost', 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
  const lines = Object.entries({ ...all, 'content-length': String(Buffer.byteLength(body)) }).map(([name, value]) => `${name}: ${value}`);
  const asked = dial();
  asked.socket.write(`GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nPOST /mcp HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
  await until(
    () => asked.heard.text,
    text => text.includes('alive'),
  );
  const late = dial();
  await until(
    () => late.heard.isOver,
    isOver => isOver,
  );
  await until(
    () => asked.heard.text,
    text => text.includes('"fired"'),
  );
  // Nothing is asked there any more.
  const next = dial();
  next.socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n');
  await until(
    () => next.heard.text,
    text => text.includes('alive'),
  );
  expect(asked.heard.isOver).toBe(true);
});

test('a caller is known by the same name in the same role, by whatever it was known', () => {
  const { http } = readConfig([writeYaml(temporaryFolder(), EMPTY)]);
  const tls = { cert: '', key: '', clientCa: 'ca', files: {} };
  const jwt = { issuer: ISSUER, audience: AUDIENCE, jwks: 'https://id.example/jwks', roleClaim: 'role', algorithms: [] };
  const token = { name: 'desk', role: 'viewer', approves: false, sha256: '' } as const;
  const bare = { ...http, tls };
  const mail = { name: 'certificate:anna@plant.example', role: 'viewer' } as const;
  const caller = { name: 'anna@id.example', role: 'viewer' } as const;
  expect(isKnown({ name: 'http', role: 'operator' }, http, http)).toBe(true);
  expect(isKnown({ name: 'http', role: 'operator' }, { ...http, tokens: [token] }, http)).toBe(false);
  expect(isKnown(mail, bare, bare)).toBe(true);
  for (const now of [
    { ...bare, jwt },
    { ...bare, tokens: [token] },
    { ...bare, certificates: [{ ...token, commonName: 'x' }] },
  ])
    expect(isKnown(mail, now, bare)).toBe(false);
  expect(isKnown(caller, { ...bare, jwt }, { ...bare, jwt })).toBe(true);
  expect(isKnown(caller, { ...bare, jwt: { ...jwt, audience: 'https://other.example' } }, { ...bare, jwt })).toBe(false);
  expect(isKnown(caller, bare, { ...bare, jwt })).toBe(false);
  expect(isKnown(token, { ...http, tokens: [token] }, http)).toBe(true);
  expect(isKnown(token, { ...http, tokens: [{ ...token, role: 'operator' }] }, http)).toBe(false);
});
