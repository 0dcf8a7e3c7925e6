import { createHash } from 'node:crypto';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { clientOptions, type Revision, TestBridge, until, writePoint } from '../support/bridge.ts';
import { runCli } from '../support/cli.ts';
import { initialize, MODERN_META, messages, modern, rpc, send } from '../support/raw-http.ts';
import { safePlant } from '../support/safe-plant.ts';

const TOKENS = { viewer: 'fb_viewer', operator: 'fb_operator', engineer: 'fb_engineer', anna: 'fb_anna' } as const;
const entry = (name: keyof typeof TOKENS, role: string, more: object = {}) => ({
  name,
  role,
  sha256: createHash('sha256').update(TOKENS[name]).digest('hex'),
  ...more,
});
const HTTP = {
  http: {
    auth: {
      tokens: [
        entry('viewer', 'viewer'),
        entry('operator', 'operator'),
        entry('engineer', 'engineer'),
        entry('anna', 'operator', { approves: true }),
      ],
    },
  },
};
const POINTS = {
  level: { holding: 0, write: {} },
  deep: { holding: 1, write: { role: 'engineer' } },
  approved: { holding: 2, write: { confirm: 'person' } },
};
const bearer = (name: keyof typeof TOKENS) => ({ authorization: `Bearer ${TOKENS[name]}` });

async function plant(safety: object = {}) {
  const audits = await safePlantWithTokens(safety);
  const as = async (name: keyof typeof TOKENS, revision: Revision = '2026-07-28'): Promise<Client> => {
    const client = new Client({ name, version: '1' }, clientOptions(revision));
    onTestFinished(() => client.close());
    await client.connect(new StreamableHTTPClientTransport(new URL(audits.bridge.endpoint), { requestInit: { headers: bearer(name) } }));
    return client;
  };
  return { ...audits, as };
}

const safePlantWithTokens = (safety: object) => safePlant(POINTS, safety, { ...HTTP, token: TOKENS.viewer });

test('without a right token nobody is served, on any method, and nothing tells how wrong it was', async () => {
  const { bridge } = await plant();
  const wrong = [{}, { authorization: 'Bearer wrong' }, { authorization: `Basic ${TOKENS.operator}` }, { authorization: 'Bearer ' }];
  const replies = [];
  for (const headers of wrong) replies.push(await send(bridge.endpoint, { headers, body: initialize() }));
  for (const method of ['GET', 'DELETE']) replies.push(await send(bridge.endpoint, { method, headers: { 'mcp-session-id': 'x' } }));
  replies.push(await send(bridge.endpoint, { path: '/approvals', method: 'GET' }));
  expect(new Set(replies.map(({ status, body }) => `${status} ${body}`)).size).toBe(1);
  for (const { status, headers } of replies) expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer']);
});

test('after ten wrong tokens in a minute a caller has to wait, and right ones of others go on being served', async () => {
  const { bridge } = await plant();
  const statuses: number[] = [];
  for (let i = 0; i < 12; i++)
    statuses.push((await send(bridge.endpoint, { headers: { authorization: `Bearer ${i}` }, body: initialize() })).status);
  expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429, 429]);
});

test('each token has its role and its name: what is listed, what is written, and who stands in the record', async () => {
  const { as, audit } = await plant();
  const names = async (client: Client) => (await client.listTools()).tools.map(tool => tool.name);
  const [viewer, operator, engineer] = [await as('viewer'), await as('operator', '2025-11-25'), await as('engineer')];
  expect(await names(viewer)).not.toContain('write_point');
  expect(await names(operator)).toContain('write_point');
  // Who calls a tool by a name that was not listed to him is judged all the same.
  expect(await writePoint(viewer, 'd.level', 5)).toMatchObject({ status: 'refused', rule: 'role' });
  expect(await writePoint(operator, 'd.deep', 5)).toMatchObject({ status: 'refused', rule: 'role' });
  expect((await writePoint(operator, 'd.level', 5)).status).toBe('written');
  expect((await writePoint(engineer, 'd.deep', 5)).status).toBe('written');
  expect(audit().map(({ principal, kind }) => [principal, kind])).toEqual([
    ['viewer', 'refusal'],
    ['operator', 'refusal'],
    ['operator', 'intent'],
    ['operator', 'outcome'],
    ['engineer', 'intent'],
    ['engineer', 'outcome'],
  ]);
});

test('a session is for the caller that made it: to anybody else it is not there', async () => {
  const { bridge } = await plant();
  const opened = await send(bridge.endpoint, { headers: bearer('operator'), body: initialize() });
  const session = { 'mcp-session-id': String(opened.headers['mcp-session-id']), 'mcp-protocol-version': '2025-11-25' };
  expect((await send(bridge.endpoint, { headers: { ...bearer('operator'), ...session }, body: rpc('ping') })).status).toBe(200);
  for (const method of ['POST', 'GET', 'DELETE'])
    expect(
      (
        await send(bridge.endpoint, {
          method,
          headers: { ...bearer('engineer'), ...session },
          ...(method === 'POST' && { body: rpc('ping') }),
        })
      ).status,
    ).toBe(404);
  expect((await send(bridge.endpoint, { headers: { ...bearer('operator'), ...session }, body: rpc('ping') })).status).toBe(200);
});

test('a person approves over HTTP by a token that opens nothing else; the assistant never does', async () => {
  const { bridge, as, written, audit } = await plant();
  const base = new URL(bridge.endpoint).origin;
  const decide = (who: keyof typeof TOKENS, id: string, body: object) =>
    send(base, { path: `/approvals/${id}`, headers: bearer(who), body: JSON.stringify(body) });
  const operator = await as('operator');
  const { reason = '' } = await writePoint(operator, 'd.approved', 7);
  const [, id = ''] = /fieldbridge approve (\w+)/.exec(reason) ?? [];
  for (const who of ['operator', 'engineer'] as const) {
    expect((await decide(who, id, { decision: 'approve' })).status).toBe(403);
    expect((await send(base, { path: '/approvals', method: 'GET', headers: bearer(who) })).status).toBe(403);
  }
  expect((await send(bridge.endpoint, { headers: bearer('anna'), body: initialize() })).status).toBe(403);
  const call = modern('tools/list');
  expect((await send(bridge.endpoint, { ...call, headers: { ...call.headers, ...bearer('anna') } })).status).toBe(403);
  const listed = JSON.parse((await send(base, { path: '/approvals', method: 'GET', headers: bearer('anna') })).body) as {
    pending: object[];
  };
  expect(listed.pending).toMatchObject([{ id, state: 'waiting', point: 'd.approved' }]);
  for (const body of [{}, { decision: 'yes' }, { decision: 'approve', reason: 5 }])
    expect((await decide('anna', id, body)).status).toBe(400);
  expect(written()).toEqual([]);
  const approved = await decide('anna', id, { decision: 'approve', reason: 'seen' });
  expect([approved.status, JSON.parse(approved.body)]).toMatchObject([200, { outcome: { status: 'written' } }]);
  expect((await decide('anna', id, { decision: 'approve' })).status).toBe(409);
  expect((await decide('anna', 'nothing', { decision: 'approve' })).status).toBe(409);
  expect(written()).toHaveLength(1);
  expect(audit()).toMatchObject([
    { kind: 'pending', principal: 'operator' },
    { kind: 'approval', approver: 'anna', comment: 'seen' },
    { kind: 'intent', confirmed: { kind: 'person', by: 'anna' } },
    { kind: 'outcome', status: 'written' },
  ]);
});

test('the question that one caller was asked is no use to another', async () => {
  const { bridge, written, audit } = await safePlant(
    { asked: { holding: 3, write: { confirm: 'client' } } },
    {},
    { ...HTTP, token: TOKENS.viewer },
  );
  const meta = { ...MODERN_META, 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } };
  const ask = async (who: keyof typeof TOKENS, more: object = {}) => {
    const params = { name: 'write_point', arguments: { point: 'd.asked', value: 9, reason: 'test' } };
    const { headers } = modern('tools/call', params);
    const body = rpc('tools/call', { ...params, _meta: meta, ...more });
    return messages(await send(bridge.endpoint, { headers: { ...headers, ...bearer(who) }, body }))[0]?.result;
  };
  const requestState = (await ask('operator'))?.requestState;
  const yes = { inputResponses: { confirm: { action: 'accept', content: { confirm: true } } }, requestState };
  expect(await ask('engineer', yes)).toMatchObject({ structuredContent: { status: 'refused', rule: 'confirm' } });
  expect(written()).toEqual([]);
  expect(await ask('operator', yes)).toMatchObject({ structuredContent: { status: 'written' } });
  expect(audit()[0]).toMatchObject({ kind: 'refusal', principal: 'engineer', rule: 'confirm' });
});

test('a token is made and shown once; with it a client is served, over --attach too', async () => {
  const made = await runCli(['token', 'control-room', '--role', 'operator']);
  expect(made.code).toBe(0);
  const [, token = ''] = /^(fb_[\w-]{43})$/m.exec(made.stdout) ?? [];
  const map = parse(made.stdout.slice(made.stdout.indexOf('http:'))) as object;
  expect(JSON.stringify(map)).not.toContain(token);
  const bridge = await TestBridge.start({ connections: {}, devices: {}, ...map });
  const attached = async (env: NodeJS.ProcessEnv) => {
    process.env.FIELDBRIDGE_TOKEN = env.FIELDBRIDGE_TOKEN ?? '';
    const { stdout } = await runCli(['stdio', '--attach', bridge.endpoint], `${initialize()}\n`);
    delete process.env.FIELDBRIDGE_TOKEN;
    return messages({ status: 0, headers: {}, body: stdout })[0];
  };
  expect((await attached({ FIELDBRIDGE_TOKEN: token }))?.result).toBeDefined();
  expect((await attached({}))?.error?.message).toContain('refuses the caller (HTTP 401)');
  await until(
    () => bridge.open,
    open => open.sessions === 0,
  );
  expect(await runCli(['token', 'Wrong Name'])).toMatchObject({ code: 1, stderr: expect.stringContaining('a name of a-z') });
});
