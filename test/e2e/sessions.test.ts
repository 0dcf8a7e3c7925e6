import { expect, onTestFinished, test, vi } from 'vitest';
import { deviceMap, TestBridge, until } from '../support/bridge.ts';
import { startFixtureServer } from '../support/fixture-server.ts';
import { EventReader, initialize, MODERN_META, messages, modern, open, openSession, rpc, send } from '../support/raw-http.ts';

const WATCHED = 'test://watched-resource';
const subscribe = (uri: string): string => rpc('resources/subscribe', { uri });
const listen = async (endpoint: string, headers: Record<string, string>): Promise<EventReader> =>
  new EventReader(await open(endpoint, { method: 'GET', headers }));
const isUpdate = ({ method }: { method?: string }): boolean => method === 'notifications/resources/updated';

test('a client of 2025-03-26 is served over HTTP, its batches too', async () => {
  const bridge = await TestBridge.start(deviceMap(9, { p: { holding: 0 } }));
  const headers = await openSession(bridge.endpoint, '2025-03-26');
  const batch = `[${rpc('tools/list', {}, 5)},${rpc('ping', undefined, 6)},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}]`;
  const reply = await send(bridge.endpoint, { headers, body: batch });
  expect(reply.status).toBe(200);
  expect(
    messages(reply)
      .map(message => message.id)
      .sort(),
  ).toEqual([5, 6]);
  const client = await bridge.client('2025-03-26');
  expect(client.getNegotiatedProtocolVersion()).toBe('2025-03-26');
  expect((await client.listTools()).tools.length).toBeGreaterThan(4);
});

test.each(['2025-06-18', '2025-11-25'])('in %s a batch is refused by name', async revision => {
  const bridge = await TestBridge.start(deviceMap(9, { p: { holding: 0 } }));
  const headers = await openSession(bridge.endpoint, revision);
  const reply = await send(bridge.endpoint, { headers, body: `[${rpc('ping')}]` });
  expect([reply.status, messages(reply)[0]?.error?.code]).toEqual([400, -32600]);
  expect(reply.body).toContain(revision);
});

test('an empty batch, a batch without a session, and what is no JSON-RPC are invalid requests', async () => {
  const bridge = await TestBridge.start(deviceMap(9, { p: { holding: 0 } }));
  const headers = await openSession(bridge.endpoint, '2025-03-26');
  for (const body of ['[]', '{}', '5', 'null', '{"jsonrpc":"1.0","id":1,"method":"ping"}', '[1]']) {
    const reply = await send(bridge.endpoint, { headers, body });
    expect([body, reply.status, messages(reply)[0]?.error?.code]).toEqual([body, 400, -32600]);
  }
  const alone = await send(bridge.endpoint, { body: `[${initialize()}]` });
  expect([alone.status, messages(alone)[0]?.error?.code]).toEqual([400, -32600]);
});

test('the revision of 2024-11-05 is not served over HTTP: such a client is offered another', async () => {
  const bridge = await TestBridge.start(deviceMap(9, { p: { holding: 0 } }));
  const reply = await send(bridge.endpoint, { body: initialize('2024-11-05') });
  expect(messages(reply)[0]?.result?.protocolVersion).toBe('2025-11-25');
});

test('unknown methods, missing and contradicting headers have the codes of the specification', async () => {
  const bridge = await TestBridge.start(deviceMap(9, { p: { holding: 0 } }));
  const headers = await openSession(bridge.endpoint);
  expect(messages(await send(bridge.endpoint, { headers, body: rpc('plant/explode') }))[0]?.error?.code).toBe(-32601);
  const unknownVersion = await send(bridge.endpoint, { headers: { ...headers, 'mcp-protocol-version': '1999-01-01' }, body: rpc('ping') });
  expect(unknownVersion.status).toBe(400);
  const unknown = await send(bridge.endpoint, modern('plant/explode'));
  expect([unknown.status, messages(unknown)[0]?.error?.code]).toEqual([404, -32601]);
  for (const wrong of [{ 'mcp-method': '' }, { 'mcp-method': 'tools/call' }, { 'mcp-protocol-version': '' }]) {
    const reply = await send(bridge.endpoint, modern('tools/list', {}, wrong));
    expect([reply.status, messages(reply)[0]?.error?.code]).toEqual([400, -32020]);
  }
  const future = await send(bridge.endpoint, {
    headers: { 'mcp-protocol-version': '2099-01-01', 'mcp-method': 'tools/list' },
    body: rpc('tools/list', { _meta: { ...MODERN_META, 'io.modelcontextprotocol/protocolVersion': '2099-01-01' } }),
  });
  expect([future.status, messages(future)[0]?.error?.code]).toEqual([400, -32022]);
  const wrongType = await send(bridge.endpoint, { headers: { accept: 'application/json', ...headers }, body: rpc('ping') });
  expect(wrongType.status).toBe(406);
});

test('an argument that travels in a header too has to be the same there', async () => {
  const { endpoint } = await startFixtureServer();
  const call = (header?: string) =>
    send(
      endpoint,
      modern(
        'tools/call',
        { name: 'test_headers', arguments: { region: 'Köln' } },
        header === undefined ? {} : { 'mcp-param-region': header },
      ),
    );
  const encoded = `=?base64?${Buffer.from('Köln').toString('base64')}?=`;
  expect(messages(await call(encoded))[0]?.result?.content).toEqual([{ type: 'text', text: 'Köln' }]);
  for (const wrong of [undefined, 'Bonn', '=?base64?S8O2bG4?=', '=?base64?!!!!?=']) {
    const reply = await call(wrong);
    expect([reply.status, messages(reply)[0]?.error?.code]).toEqual([400, -32020]);
    expect(messages(reply)[0]?.error?.message).toContain('Mcp-Param-Region');
  }
});

test('a stream that broke goes on where it was: nothing told in between is missed', async () => {
  const { endpoint, tell } = await startFixtureServer();
  const headers = await openSession(endpoint);
  await send(endpoint, { headers, body: subscribe(WATCHED) });
  const first = await listen(endpoint, headers);
  tell.updated(WATCHED);
  await until(
    () => first.events.filter(isUpdate).length,
    count => count === 1,
  );
  first.close();
  await until(
    () => first.ended,
    ended => ended,
  );
  tell.updated(WATCHED);
  tell.updated(WATCHED);
  const lastId = first.events.findLast(isUpdate)?.id ?? '';
  const second = await listen(endpoint, { ...headers, 'last-event-id': lastId });
  await until(
    () => second.events.filter(isUpdate).length,
    count => count === 2,
  );
  tell.updated(WATCHED);
  await until(
    () => second.events.filter(isUpdate).length,
    count => count === 3,
  );
});

test('what is not kept any more is told as changed, once for each subscription', async () => {
  const { endpoint, tell } = await startFixtureServer();
  const headers = await openSession(endpoint);
  const uris = [WATCHED, 'test://static-text'];
  for (const uri of uris) await send(endpoint, { headers, body: subscribe(uri) });
  const first = await listen(endpoint, headers);
  tell.updated(WATCHED);
  await until(
    () => first.events.filter(isUpdate).length,
    count => count === 1,
  );
  first.close();
  for (let i = 0; i < 300; i++) tell.updated(WATCHED);
  const second = await listen(endpoint, { ...headers, 'last-event-id': first.events.findLast(isUpdate)?.id ?? '' });
  await until(
    () => second.events.filter(isUpdate).some(({ uri }) => uri === 'test://static-text'),
    told => told,
  );
  expect(second.events.filter(({ uri }) => uri === 'test://static-text')).toHaveLength(1);
  // An answer that is not kept is said to be gone, instead of a stream that never brings it.
  const gone = await send(endpoint, { method: 'GET', headers: { ...headers, 'last-event-id': 'some-request.7' } });
  expect([gone.status, gone.body]).toEqual([400, expect.stringContaining('not kept any more')]);
});

test('the answer to a call whose stream broke is fetched with the last event', async () => {
  const { endpoint } = await startFixtureServer();
  const headers = await openSession(endpoint);
  const response = await open(endpoint, { headers, body: rpc('tools/call', { name: 'test_tool_with_progress', arguments: {} }, 7) });
  const broken = new EventReader(response);
  await until(
    () => broken.events.length,
    count => count === 1,
  );
  broken.close();
  await new Promise(resolve => setTimeout(resolve, 300));
  const resumed = await send(endpoint, { method: 'GET', headers: { ...headers, 'last-event-id': broken.events[0]?.id ?? '' } });
  expect(messages(resumed).find(message => message.id === 7)?.result).toBeDefined();
});

test('a client that opens its stream again takes it over from the one that was lost', async () => {
  const { endpoint, tell, mcp } = await startFixtureServer();
  const headers = await openSession(endpoint);
  await send(endpoint, { headers, body: subscribe(WATCHED) });
  const first = await listen(endpoint, headers);
  const second = await listen(endpoint, headers);
  expect([first.status, second.status]).toEqual([200, 200]);
  await until(
    () => first.ended,
    ended => ended,
  );
  tell.updated(WATCHED);
  await until(
    () => second.events.filter(isUpdate).length,
    count => count === 1,
  );
  expect(first.events.filter(isUpdate)).toEqual([]);
  expect(mcp.open).toEqual({ sessions: 1, streams: 1 });
});

test.each(['2025-11-25', '2026-07-28'])('a client of %s that does not read is cut, and the others hear on', async revision => {
  const { endpoint, tell, mcp } = await startFixtureServer({ unsent: 200_000 });
  const uri = `test://template/${'x'.repeat(500)}/data`;
  const streamOf = async () => {
    if (revision === '2026-07-28')
      return await open(endpoint, modern('subscriptions/listen', { notifications: { resourceSubscriptions: [uri] } }));
    const headers = await openSession(endpoint, revision);
    await send(endpoint, { headers, body: subscribe(uri) });
    return await open(endpoint, { method: 'GET', headers });
  };
  const deaf = await streamOf();
  deaf.on('error', () => undefined);
  deaf.pause();
  const reader = new EventReader(await streamOf());
  expect(mcp.open.streams).toBe(2);
  let told = 0;
  await until(
    async () => {
      for (let i = 0; i < 100; i++) tell.updated(uri);
      told += 100;
      await new Promise(resolve => setImmediate(resolve));
      return mcp.open.streams;
    },
    streams => streams === 1,
  );
  await until(
    () => reader.events.filter(isUpdate).length,
    count => count === told,
  );
});

test('limits of the map hold: sessions, streams, resources of a stream', async () => {
  const bridge = await TestBridge.start({
    ...deviceMap(9, { p: { holding: 0 }, q: { holding: 1 } }),
    http: { limits: { sessions: 2, streams: 1, uris_per_stream: 1, body: '1kB' } },
  });
  const headers = await openSession(bridge.endpoint);
  const stream = await listen(bridge.endpoint, headers);
  expect(stream.status).toBe(200);
  const other = await openSession(bridge.endpoint);
  expect((await send(bridge.endpoint, { method: 'GET', headers: other })).status).toBe(503);
  const modernStream = await send(bridge.endpoint, modern('subscriptions/listen', { notifications: { resourcesListChanged: true } }));
  expect(messages(modernStream)[0]?.error?.message).toContain('1 streams already');
  // The one that listens keeps its seat; the idle one gives way.
  const third = await openSession(bridge.endpoint);
  expect((await send(bridge.endpoint, { headers, body: rpc('ping') })).status).toBe(200);
  expect((await send(bridge.endpoint, { headers: other, body: rpc('ping') })).status).toBe(404);
  expect(messages(await send(bridge.endpoint, { headers: third, body: subscribe('plant://d/p') }))[0]?.result).toEqual({});
  expect(messages(await send(bridge.endpoint, { headers: third, body: subscribe('plant://d/q') }))[0]?.error?.message).toContain(
    'at most 1',
  );
  expect((await send(bridge.endpoint, { headers: third, body: rpc('ping', { text: 'x'.repeat(1000) }) })).status).toBe(413);
});

test('a session that is not used for half an hour expires', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { endpoint, mcp } = await startFixtureServer();
  const idle = await openSession(endpoint);
  const busy = await openSession(endpoint);
  vi.advanceTimersByTime(29 * 60_000);
  expect((await send(endpoint, { headers: busy, body: rpc('ping') })).status).toBe(200);
  vi.advanceTimersByTime(3 * 60_000);
  await until(
    () => mcp.open.sessions,
    sessions => sessions === 1,
  );
  expect((await send(endpoint, { headers: idle, body: rpc('ping') })).status).toBe(404);
  expect((await send(endpoint, { headers: busy, body: rpc('ping') })).status).toBe(200);
});

test('a long list of tools comes in pages, always in the same order', async () => {
  const names = Array.from({ length: 250 }, (_, i) => `tool_${i}`);
  const bridge = await TestBridge.start({
    ...deviceMap(9, { p: { holding: 0 } }),
    tools: Object.fromEntries(names.map(name => [name, { read: ['d.p'] }])),
  });
  const headers = await openSession(bridge.endpoint);
  const listed: string[] = [];
  let cursor: unknown;
  let pages = 0;
  do {
    const [reply] = messages(await send(bridge.endpoint, { headers, body: rpc('tools/list', cursor === undefined ? {} : { cursor }) }));
    listed.push(...((reply?.result?.tools ?? []) as { name: string }[]).map(tool => tool.name));
    cursor = reply?.result?.nextCursor;
    pages++;
  } while (cursor !== undefined);
  expect(pages).toBe(3);
  expect(listed.slice(-250)).toEqual(names);
  for (const list of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'])
    expect(messages(await send(bridge.endpoint, { headers, body: rpc(list, { cursor: 'nonsense' }) }))[0]?.error?.code).toBe(-32602);
});

test('clients that come and go leave no session, stream, timer or listener behind', async () => {
  const { endpoint, mcp } = await startFixtureServer();
  const round = async (): Promise<void> => {
    const headers = await openSession(endpoint);
    await send(endpoint, { headers, body: subscribe(WATCHED) });
    const old = await listen(endpoint, headers);
    const listening = modern('subscriptions/listen', { notifications: { resourceSubscriptions: [WATCHED] } });
    const recent = new EventReader(await open(endpoint, listening));
    await send(endpoint, { headers, body: rpc('tools/call', { name: 'test_simple_text', arguments: {} }) });
    await send(endpoint, modern('tools/call', { name: 'test_simple_text', arguments: {} }));
    old.close();
    recent.close();
    await send(endpoint, { method: 'DELETE', headers });
  };
  const timers = (): number => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length;
  const isQuiet = () =>
    until(
      () => mcp.open,
      ({ sessions, streams }) => sessions === 0 && streams === 0,
    );
  await round();
  await isQuiet();
  const before = timers();
  for (let i = 0; i < 50; i++) await round();
  await isQuiet();
  await until(
    () => timers() - before,
    more => more <= 2,
  );
});
