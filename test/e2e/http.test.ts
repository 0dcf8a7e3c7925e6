import { describe, expect, test } from 'vitest';
import { deviceMap, TestBridge } from '../support/bridge.ts';
import { initialize, messages, type Reply, type RpcReply, send } from '../support/raw-http.ts';

const start = (http: object = {}) => TestBridge.start({ ...deviceMap(9, { p: { holding: 0 } }), http });
const json = (reply: Reply): RpcReply => messages(reply)[0] ?? { id: undefined };

describe('who may call from where', () => {
  test('a foreign Host is refused, a loopback one and an allowed one are served', async () => {
    const bridge = await start({ allowed_hosts: ['bridge.example'] });
    const body = initialize();
    for (const host of ['evil.example', '192.0.2.1:8502'])
      expect((await send(bridge.endpoint, { headers: { host }, body })).status).toBe(403);
    for (const host of ['localhost:1', '127.0.0.1', '[::1]:8502', 'bridge.example:443'])
      expect((await send(bridge.endpoint, { headers: { host }, body })).status).toBe(200);
  });

  test('a foreign Origin is refused on every method, and one that is allowed is served', async () => {
    const bridge = await start({ allowed_origins: ['https://panel.example'] });
    const body = initialize();
    for (const method of ['POST', 'GET', 'DELETE'])
      expect(
        (await send(bridge.endpoint, { method, headers: { origin: 'https://evil.example' }, ...(method === 'POST' && { body }) })).status,
      ).toBe(403);
    expect((await send(bridge.endpoint, { headers: { origin: 'null' }, body })).status).toBe(403);
    for (const origin of ['http://localhost:3000', 'https://panel.example'])
      expect((await send(bridge.endpoint, { headers: { origin }, body })).status).toBe(200);
  });
});

describe('what is no MCP', () => {
  test('other paths, other methods, no JSON, too large a body', async () => {
    const bridge = await start();
    expect((await send(bridge.endpoint, { path: '/', body: '{}' })).status).toBe(404);
    expect((await send(bridge.endpoint, { method: 'PUT', body: '{}' })).status).toBe(405);
    const broken = await send(bridge.endpoint, { body: '{"jsonrpc":' });
    expect([broken.status, json(broken).error?.code]).toEqual([400, -32700]);
    expect((await send(bridge.endpoint, { headers: { 'content-type': 'text/plain' }, body: 'hello' })).status).toBe(415);
    const large = await send(bridge.endpoint, {
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'x', params: { text: 'x'.repeat(70_000) } }),
    });
    expect(large.status).toBe(413);
    for (const reply of [broken, large]) expect(reply.body).not.toMatch(/node_modules|\.ts:|at /);
  });

  test('a path of the user is served, and the usual one is not', async () => {
    const bridge = await start({ path: '/plant/mcp' });
    expect(bridge.endpoint).toMatch(/\/plant\/mcp$/);
    expect((await send(bridge.endpoint, { body: initialize() })).status).toBe(200);
    expect((await send(bridge.endpoint, { path: '/mcp', body: initialize() })).status).toBe(404);
  });
});

describe('sessions of older clients', () => {
  test('a session is made by initialize, used by its id, and ended by DELETE', async () => {
    const bridge = await start();
    const opened = await send(bridge.endpoint, { body: initialize() });
    const id = String(opened.headers['mcp-session-id']);
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    const headers = { 'mcp-session-id': id, 'mcp-protocol-version': '2025-11-25' };
    const list = await send(bridge.endpoint, { headers, body: JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' }) });
    expect(list.status).toBe(200);
    expect(json(list).result).toHaveProperty('tools');
    expect((await send(bridge.endpoint, { method: 'DELETE', headers })).status).toBe(200);
    const gone = await send(bridge.endpoint, { headers, body: JSON.stringify({ jsonrpc: '2.0', id: 3, method: 'tools/list' }) });
    expect([gone.status, json(gone).error?.code, json(gone).id]).toEqual([404, -32001, 3]);
  });

  test('an unknown session is 404, none at all is 400', async () => {
    const bridge = await start();
    const body = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' });
    expect((await send(bridge.endpoint, { headers: { 'mcp-session-id': 'guess' }, body })).status).toBe(404);
    expect((await send(bridge.endpoint, { body })).status).toBe(400);
    expect((await send(bridge.endpoint, { method: 'GET' })).status).toBe(400);
  });

  test('more sessions than there are seats: the one that was idle longest makes room', async () => {
    const bridge = await start();
    const ids: string[] = [];
    for (let i = 0; i < 260; i++) {
      const opened = await send(bridge.endpoint, { body: initialize() });
      expect(opened.status).toBe(200);
      ids.push(String(opened.headers['mcp-session-id']));
    }
    const list = (id: string | undefined) =>
      send(bridge.endpoint, {
        headers: { 'mcp-session-id': id ?? '' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' }),
      });
    expect((await list(ids[0])).status).toBe(404);
    expect((await list(ids.at(-1))).status).toBe(200);
  });

  test('one connection subscribes to 256 resources at the most', async () => {
    const points = Object.fromEntries(Array.from({ length: 260 }, (_, i) => [`p${i}`, { holding: i }]));
    const bridge = await TestBridge.start(deviceMap(9, points));
    const client = await bridge.client('2025-11-25');
    for (let i = 0; i < 256; i++) await client.subscribeResource({ uri: `plant://d/p${i}` });
    await expect(client.subscribeResource({ uri: 'plant://d/p256' })).rejects.toThrow('at most 256');
    await client.unsubscribeResource({ uri: 'plant://d/p0' });
    await client.subscribeResource({ uri: 'plant://d/p256' });
    const modern = await bridge.client('2026-07-28');
    await expect(modern.listen({ resourceSubscriptions: Object.keys(points).map(id => `plant://d/${id}`) })).rejects.toThrow('at most 256');
  });
});
