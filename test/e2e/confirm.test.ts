import { existsSync, statSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { stringify } from 'yaml';
import { callTool, clientOptions, type Revision, type TestBridge, until, writePoint, writeYaml } from '../support/bridge.ts';
import { runCli } from '../support/cli.ts';
import { MODERN_META, messages, modern, rpc, send } from '../support/raw-http.ts';
import { type SafePlant, safePlant } from '../support/safe-plant.ts';

const POINTS = {
  asked: { holding: 0, unit: '°C', deadband: 2, description: 'Flow temperature', write: { max: 100, confirm: 'client' } },
  approved: { holding: 1, write: { max: 100, confirm: 'person' } },
  valve: { coil: 0, write: { confirm: 'client' } },
  guarded: { holding: 2, write: { confirm: 'client', interlock: 'd.release > 0.0' } },
  release: { holding: 3, poll_interval: '60s' },
};

type Reply = { action: 'accept' | 'decline' | 'cancel'; content?: Record<string, boolean> };
const YES: Reply = { action: 'accept', content: { confirm: true } };

/** A client with a person who answers. */
async function personAt(bridge: TestBridge, revision: Revision, answer: (message: string) => Reply | Promise<Reply>) {
  const asked: string[] = [];
  const client = new Client({ name: 'person', version: '1' }, { ...clientOptions(revision), capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler('elicitation/create', async request => {
    asked.push(request.params.message);
    return await answer(request.params.message);
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(bridge.endpoint)));
  onTestFinished(() => client.close());
  return { client, asked };
}

describe.each(['2025-11-25', '2026-07-28'] as const)('confirm: client, with a client of %s', revision => {
  test('the person is asked with point, old and new value and reason; a yes is written and recorded', async () => {
    const { bridge, written, audit } = await safePlant(POINTS);
    const { client, asked } = await personAt(bridge, revision, () => YES);
    const outcome = await writePoint(client, 'd.asked', 21, { reason: 'colder "outside"' });
    expect(outcome).toMatchObject({ status: 'written', before: 0, after: 21 });
    expect(asked).toEqual([
      'Write d.asked (Flow temperature) to 21 °C? It is 0 °C now. Asked for by person 1, reason: "colder \\"outside\\"".',
    ]);
    expect(written()).toHaveLength(1);
    expect(audit()).toMatchObject([
      { kind: 'intent', confirmed: { kind: 'client', by: 'person 1', seeing: 0 } },
      { kind: 'outcome', status: 'written', confirmed: { kind: 'client' } },
    ]);
    // What changes nothing need not be asked.
    expect((await writePoint(client, 'd.asked', 21)).status).toBe('unchanged');
    expect(asked).toHaveLength(1);
    // Nor is anybody asked about what a rule refuses, or about a dry run.
    expect((await writePoint(client, 'd.asked', 500)).rule).toBe('limits');
    expect((await writePoint(client, 'd.guarded', 5)).rule).toBe('interlock');
    expect((await writePoint(client, 'd.asked', 30, { dry_run: true })).status).toBe('simulated');
    expect(asked).toHaveLength(1);
  });

  test.each([
    ['a no', { action: 'decline' }],
    ['a form that was closed', { action: 'cancel' }],
    ['a form without the yes', { action: 'accept', content: { confirm: false } }],
  ] as const)('%s is declined, recorded, and sends nothing', async (_name, reply) => {
    const { bridge, written, audit } = await safePlant(POINTS);
    const { client } = await personAt(bridge, revision, () => reply as Reply);
    expect(await writePoint(client, 'd.asked', 21)).toMatchObject({ status: 'declined', reason: 'the person at the client said no' });
    expect(written()).toEqual([]);
    expect(audit()).toMatchObject([{ kind: 'outcome', status: 'declined' }]);
  });

  test('a value that moves between question and answer is asked about again; what does not settle is refused', async () => {
    const { bridge, unit, written } = await safePlant(POINTS);
    let times = 0;
    const { client, asked } = await personAt(bridge, revision, () => {
      // Within the deadband it has not moved; beyond it, it has.
      if (++times === 1) unit.set('holding', 0, 10);
      else if (times === 2) unit.set('holding', 0, 11);
      return YES;
    });
    expect(await writePoint(client, 'd.asked', 21)).toMatchObject({ status: 'written', before: 11 });
    expect(asked).toHaveLength(2);
    expect(asked[1]).toContain('It is 10 °C now');
    expect(written()).toHaveLength(1);
  });

  test('a number that no double holds has moved when it has moved by one, and has not when it stands', async () => {
    const wide = { wide: { holding: 0, type: 'uint64', write: { confirm: 'client', max: 100 } } };
    const { bridge, unit } = await safePlant(wide);
    // 2^53 and 2^53 + 1 are the same double.
    unit.set('holding', 0, 32);
    let times = 0;
    const { client, asked } = await personAt(bridge, revision, () => {
      if (++times === 1) unit.set('holding', 3, 1);
      return YES;
    });
    expect(await writePoint(client, 'd.wide', 21)).toMatchObject({ status: 'written', before: '9007199254740993' });
    expect(asked).toHaveLength(2);
    expect(asked[1]).toContain('It is 9007199254740993 now');
  });

  test('an interlock that turns false while the person thinks keeps the write from the wire', async () => {
    const { bridge, unit, written } = await safePlant(POINTS);
    unit.set('holding', 3, 1);
    const { client } = await personAt(bridge, revision, () => {
      unit.set('holding', 3, 0);
      return YES;
    });
    expect(await writePoint(client, 'd.guarded', 5)).toMatchObject({ status: 'refused', rule: 'interlock' });
    expect(written()).toEqual([]);
  });

  test('a toggle is confirmed with the state that it leads to', async () => {
    const { bridge, unit } = await safePlant(POINTS, {}, { tools: { toggle_valve: { toggle: 'd.valve' } } });
    const { client, asked } = await personAt(bridge, revision, () => YES);
    expect((await callTool(client, 'toggle_valve')).structured).toMatchObject({ status: 'written', after: true });
    expect(asked[0]).toContain('Write d.valve to true? It is false now');
    expect(unit.read('coil', 0)).toBe(1);
  });
});

test('nobody answers in time: the question of an old client expires', async () => {
  const { bridge, written } = await safePlant(POINTS, { confirm_timeout: '300ms' });
  const { client } = await personAt(bridge, '2025-11-25', () => new Promise<Reply>(() => undefined));
  expect(await writePoint(client, 'd.asked', 21)).toMatchObject({ status: 'expired' });
  expect(written()).toEqual([]);
});

describe('the sealed question of 2026-07-28', () => {
  const capable = { ...MODERN_META, 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } };
  const call = (args: object, more: object = {}) => {
    const request = modern('tools/call', { name: 'write_point', arguments: { reason: 'test', ...args } });
    const body = rpc('tools/call', { name: 'write_point', arguments: { reason: 'test', ...args }, _meta: capable, ...more });
    return { ...request, body };
  };
  const ask = async (plant: SafePlant, args: object, more: object = {}) => {
    const [reply] = messages(await send(plant.bridge.endpoint, call(args, more)));
    return (reply?.result ?? reply?.error ?? {}) as {
      resultType?: string;
      requestState?: string;
      structuredContent?: { status?: string; rule?: string; reason?: string };
    };
  };
  const yes = { inputResponses: { confirm: { action: 'accept', content: { confirm: true } } } };

  test('forged, altered, replayed, expired, or about something else: all refused and recorded', async () => {
    const plant = await safePlant(POINTS, { confirm_timeout: '1s' });
    const args = { point: 'd.asked', value: 21 };
    const first = await ask(plant, args);
    expect(first).toMatchObject({ resultType: 'input_required', requestState: expect.stringMatching(/^[\w-]{60,}$/) });
    const state = first.requestState ?? '';
    const refused = async (given: object, words: string, what: object = args) =>
      expect((await ask(plant, what, { ...yes, ...given })).structuredContent).toMatchObject({
        status: 'refused',
        rule: 'confirm',
        reason: expect.stringContaining(words),
      });
    await refused({ requestState: 'forged' }, 'no state of this bridge');
    await refused({ requestState: `${state.slice(0, -4)}AAAA` }, 'no state of this bridge');
    await refused({ requestState: state }, 'another question', { point: 'd.asked', value: 99 });
    // It was used for that, so it is good for nothing any more.
    await refused({ requestState: state }, 'used already');
    const late = (await ask(plant, args)).requestState;
    await new Promise(resolve => setTimeout(resolve, 1100));
    await refused({ requestState: late }, 'expired');
    expect(plant.written()).toEqual([]);
    expect(plant.audit().map(({ kind, rule }) => [kind, rule])).toEqual(Array.from({ length: 5 }, () => ['refusal', 'confirm']));

    const fresh = (await ask(plant, args)).requestState;
    // Without an answer the question comes again, with a state of its own.
    const again = await ask(plant, args, { requestState: fresh });
    expect(again.resultType).toBe('input_required');
    expect((await ask(plant, args, { ...yes, requestState: again.requestState })).structuredContent).toMatchObject({ status: 'written' });
    expect((await ask(plant, args, { ...yes, requestState: again.requestState })).structuredContent).toMatchObject({ status: 'unchanged' });
    expect(plant.written()).toHaveLength(1);
  });

  test('the state of another bridge counts for nothing', async () => {
    const [one, other] = [await safePlant(POINTS), await safePlant(POINTS)];
    const { requestState } = await ask(one, { point: 'd.asked', value: 21 });
    expect((await ask(other, { point: 'd.asked', value: 21 }, { ...yes, requestState })).structuredContent).toMatchObject({
      status: 'refused',
      rule: 'confirm',
    });
  });

  test('an answer without a question, or a word in the arguments, confirms nothing', async () => {
    const plant = await safePlant(POINTS);
    expect((await ask(plant, { point: 'd.asked', value: 21 }, yes)).resultType).toBe('input_required');
    const [reply] = messages(await send(plant.bridge.endpoint, call({ point: 'd.asked', value: 21, confirm: true })));
    expect(JSON.stringify(reply?.result)).toContain('unknown argument');
    expect(plant.written()).toEqual([]);
  });
});

describe('confirm: person', () => {
  /** The same plant, and its map in a file for the command line. */
  async function withCommands(safety: object = {}) {
    const plant = await safePlant(POINTS, safety);
    const map = writeYaml(
      plant.bridge.folder,
      stringify({ connections: {}, devices: {}, safety: { writes: 'enabled', audit: plant.bridge.auditFile } }),
      'door.yaml',
    );
    await until(
      () => existsSync(`${plant.bridge.auditFile}.control`),
      isThere => isThere,
    );
    return { ...plant, cli: (command: string, ...args: string[]) => runCli([command, map, ...args]) };
  }

  test('a write waits, a person with a name approves it outside the reach of the assistant, and get_status tells', async () => {
    const { client, written, audit, cli, bridge } = await withCommands();
    expect(statSync(`${bridge.auditFile}.control`).mode & 0o777).toBe(0o600);
    const outcome = await writePoint(client, 'd.approved', 7, { reason: 'night', request_id: 'once' });
    expect(outcome.status).toBe('pending');
    const [, id = ''] = /fieldbridge approve (\w+)/.exec(outcome.reason ?? '') ?? [];
    expect(written()).toEqual([]);
    // Asking again with the same id asks for nothing new.
    expect(await writePoint(client, 'd.approved', 7, { request_id: 'once' })).toEqual(outcome);
    const listed = await cli('pending');
    expect(listed.stdout).toContain(`${id}  waiting  until `);
    expect(listed.stdout).toContain('Write d.approved to 7? It is 0 now. Asked for by test 1, reason: "night".');
    const approved = await cli('approve', id, '-r', 'all clear');
    expect(approved).toMatchObject({ code: 0, stdout: 'd.approved: written; asked for 7, was 0\n' });
    expect(written()).toHaveLength(1);
    const { structured, text } = await callTool(client, 'get_status');
    expect(structured.pending).toMatchObject([{ id, state: 'approved', outcome: { status: 'written' }, audit_id: outcome.audit_id }]);
    expect(text).toContain(`write ${id}: approved, written`);
    expect(audit()).toMatchObject([
      { kind: 'pending', audit_id: outcome.audit_id },
      { kind: 'approval', audit_id: outcome.audit_id, approver: expect.any(String), comment: 'all clear' },
      { kind: 'intent', audit_id: outcome.audit_id, confirmed: { kind: 'person', by: expect.any(String), seeing: 0 } },
      { kind: 'outcome', audit_id: outcome.audit_id, status: 'written' },
    ]);
    // One decision only.
    expect(await cli('approve', id)).toMatchObject({ code: 1, stderr: expect.stringContaining('was approved by') });
    expect(await cli('decline', 'ffffffff')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('there is no write "ffffffff" that waits'),
    });
    expect(written()).toHaveLength(1);
  });

  test.each([
    ['a decline', {}, 'declined'],
    ['a decision that does not come', { confirm_timeout: '500ms' }, 'expired'],
  ] as const)('%s is told and recorded', async (_, safety, state) => {
    const { client, written, audit, cli } = await withCommands(safety);
    const [, id = ''] = /fieldbridge approve (\w+)/.exec((await writePoint(client, 'd.approved', 7)).reason ?? '') ?? [];
    if (state === 'declined') expect((await cli('decline', id, '-r', 'not now')).stdout).toContain('d.approved: declined');
    const { pending } = (
      await until(
        () => callTool(client, 'get_status'),
        ({ structured }) => JSON.stringify(structured.pending).includes(`"status":"${state}"`),
      )
    ).structured as { pending: { id: string; state: string; outcome: { status: string } }[] };
    expect(pending.map(one => [one.id, one.state, one.outcome.status])).toEqual([[id, state, state]]);
    expect(await cli('approve', id)).toMatchObject({ code: 1, stderr: expect.stringMatching(new RegExp(`was ${state} (by .+ )?already`)) });
    expect(written()).toEqual([]);
    const decision = state === 'declined' ? [['declined', undefined]] : [];
    expect(audit().map(({ kind, status }) => [kind, status])).toEqual([['pending', undefined], ...decision, ['outcome', state]]);
  });

  test('what was approved is judged again: a value that has moved since has to be asked for again', async () => {
    const { client, unit, written, cli } = await withCommands();
    const [, id = ''] = /fieldbridge approve (\w+)/.exec((await writePoint(client, 'd.approved', 7)).reason ?? '') ?? [];
    unit.set('holding', 1, 50);
    expect(await cli('approve', id)).toMatchObject({
      code: 1,
      stderr: '',
      stdout: expect.stringContaining('has moved since a person was asked'),
    });
    expect(written()).toEqual([]);
  });

  test('a client that can not ask its person leaves the question to one who can be found otherwise', async () => {
    const { client, cli, unit } = await withCommands();
    const outcome = await writePoint(client, 'd.asked', 21);
    expect(outcome.status).toBe('pending');
    const [, id = ''] = /fieldbridge approve (\w+)/.exec(outcome.reason ?? '') ?? [];
    expect(await cli('approve', id)).toMatchObject({ code: 0, stderr: '' });
    expect(unit.read('holding', 0)).toBe(21);
  });

  test('approver: other — who asked for a write does not approve it', async () => {
    const { cli, written, bridge } = await withCommands({ approver: 'other' });
    // From the command line it is asked for by the user of this machine, who is the one to approve it too.
    const map = writeYaml(
      bridge.folder,
      stringify({
        connections: { plc: { type: 'modbus-tcp', host: '127.0.0.1' } },
        devices: { d: { connection: 'plc', points: POINTS } },
        safety: { writes: 'enabled', audit: bridge.auditFile },
      }),
      'whole.yaml',
    );
    const asked = await runCli(['write', map, 'd.approved', '7']);
    expect(asked).toMatchObject({ code: 0, stdout: expect.stringContaining('d.approved: pending') });
    const [, id = ''] = /fieldbridge approve (\w+)/.exec(asked.stdout) ?? [];
    expect(await cli('approve', id)).toMatchObject({ code: 1, stderr: expect.stringContaining('safety.approver wants somebody else') });
    expect(written()).toEqual([]);
    // It still waits, and he may withdraw it.
    expect((await cli('decline', id)).stdout).toContain('declined');
  });

  test('no more than twenty wait, and who asks for more is told so', async () => {
    const { client } = await withCommands();
    for (let i = 1; i <= 20; i++) expect((await writePoint(client, 'd.approved', i)).status).toBe('pending');
    expect(await writePoint(client, 'd.approved', 99)).toMatchObject({ status: 'refused', rule: 'confirm' });
  });
});

test('lock is in force at once, also where it meets a write in its queue; unlock takes it off; both are recorded', async () => {
  const { client, bridge, audit, written } = await safePlant({ level: { holding: 0, write: {} } });
  const map = writeYaml(bridge.folder, stringify({ connections: {}, devices: {}, safety: { audit: bridge.auditFile } }), 'door.yaml');
  expect(await runCli(['lock', map, '-r', 'somebody works\nat the valve'])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^locked/),
  });
  const refused = await writePoint(client, 'd.level', 5);
  expect(refused).toMatchObject({ status: 'refused', rule: 'kill_switch' });
  expect(refused.reason).toMatch(/the bridge was locked by \S+ at \S+ \(somebody works\\u000aat the valve\): nothing is written/);
  expect((await runCli(['unlock', map])).stdout).toBe('unlocked\n');
  expect((await writePoint(client, 'd.level', 5)).status).toBe('written');
  expect(audit().map(({ kind }) => kind)).toEqual(['lock', 'refusal', 'unlock', 'intent', 'outcome']);
  expect(written()).toHaveLength(1);
  await bridge.stop();
  // Without a bridge the file alone does it.
  expect((await runCli(['lock', map])).stdout).toContain('no bridge runs with this map now');
  expect(existsSync(`${bridge.auditFile}.locked`)).toBe(true);
  expect(await runCli(['pending', map])).toMatchObject({ code: 1, stderr: expect.stringContaining('no bridge runs with this map') });
});
