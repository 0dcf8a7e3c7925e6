import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import type { WriteOutcome } from '../../src/model/write.ts';
import { callTool, deviceMap, readSamples, TestBridge, temporaryFolder, until, writePoint } from '../support/bridge.ts';
import { startPlc } from '../support/plc.ts';

const POINTS = {
  level: { holding: 0, unit: '%', write: { min: 0, max: 100 } },
  step: { holding: 1, scale: 0.1, unit: '°C', write: { max_step: 10 } },
  slow: { holding: 2, write: { min_interval: '10s' } },
  deep: { holding: 3, write: { role: 'engineer' } },
  fixed: { holding: 4 },
  mode: { holding: 5, enum: { 0: 'off', 1: 'auto' }, write: {} },
  blind: { holding: 6, write: { verify: 'off' } },
  valve: { coil: 0, write: {} },
};
const TOOLS = {
  set_level: { write: 'd.level', description: 'Sets the level' },
  toggle_valve: { toggle: 'd.valve' },
  toggle_mode: { toggle: 'd.mode' },
  read_level: { read: ['d.level'] },
  shut_down: { steps: [{ 'd.level': 5 }, { 'd.step': 90 }, { 'd.valve': true }] },
  shut_deep: { steps: [{ 'd.deep': 5 }] },
};

async function plant(safety: object = {}, options: { readOnly?: boolean } = {}) {
  const unit = new MemoryUnit().set('holding', 0, 50, 200, 1, 1, 1, 0, 1).set('coil', 0, 0);
  const plc = await startPlc(unit);
  plc.keepRequests = 10_000;
  const bridge = await TestBridge.start(deviceMap(plc.port, POINTS, { tools: TOOLS, safety: { writes: 'enabled', ...safety } }), options);
  const client = await bridge.client();
  await until(
    () => readSamples(client, ['d.*']),
    samples => samples.every(sample => sample.quality === 'good'),
  );
  const written = () => plc.requests.filter(({ pdu }) => pdu.readUInt8(0) > 4).map(({ pdu }) => pdu.toString('hex'));
  const audit = () =>
    existsSync(bridge.auditFile)
      ? readFileSync(bridge.auditFile, 'utf8')
          .trimEnd()
          .split('\n')
          .map(line => JSON.parse(line) as Record<string, unknown>)
      : [];
  return { unit, plc, bridge, client, written, audit };
}

const toolNames = async (client: Awaited<ReturnType<TestBridge['client']>>) => (await client.listTools()).tools.map(tool => tool.name);

describe('the switches', () => {
  test('writes are disabled unless they are enabled: tools that write are not shown, and refuse', async () => {
    const { client, written } = await plant({ writes: 'disabled' });
    expect(await toolNames(client)).toEqual(['list_points', 'read_points', 'read_history', 'wait_for', 'get_status', 'read_level']);
    for (const [name, args] of [
      ['write_point', { point: 'd.level', value: 5, reason: 'x' }],
      ['toggle_valve', {}],
      ['set_level', { value: 5 }],
    ] as const) {
      const answer = await callTool(client, name, args);
      expect(answer).toMatchObject({ isError: true, structured: { status: 'refused', rule: 'writes_disabled' } });
      expect(answer.text).toContain('writes are disabled');
    }
    expect(written()).toEqual([]);
  });

  test('--read-only overrides the map', async () => {
    const { client, written } = await plant({}, { readOnly: true });
    expect(await toolNames(client)).not.toContain('write_point');
    expect(await writePoint(client, 'd.level', 5)).toMatchObject({ status: 'refused', rule: 'read_only' });
    expect(written()).toEqual([]);
  });

  test('while the kill switch file exists nothing is written, and without it everything is', async () => {
    const file = join(temporaryFolder(), 'stop');
    const { client, written } = await plant({ kill_switch: file });
    writeFileSync(file, '');
    expect(await writePoint(client, 'd.level', 5)).toMatchObject({ status: 'refused', rule: 'kill_switch' });
    expect(written()).toEqual([]);
    rmSync(file);
    expect(await writePoint(client, 'd.level', 5)).toMatchObject({ status: 'written' });
  });
});

describe('who and what', () => {
  test('a role that is not enough is refused, and its tool not shown', async () => {
    const { client, written, audit } = await plant();
    const names = await toolNames(client);
    expect(names).toContain('shut_down');
    expect(names).not.toContain('shut_deep');
    const outcome = await writePoint(client, 'd.deep', 5);
    expect(outcome).toMatchObject({
      status: 'refused',
      rule: 'role',
      reason: expect.stringContaining('may be written by the role engineer; this client has the role operator'),
    });
    expect(await callTool(client, 'shut_deep')).toMatchObject({ isError: true, structured: { status: 'refused' } });
    expect(written()).toEqual([]);
    expect(audit()[0]).toMatchObject({ kind: 'refusal', point: 'd.deep', rule: 'role', audit_id: outcome.audit_id });
  });

  test('a point without `write` is refused, and one that is not there is named with its neighbours', async () => {
    const { client } = await plant();
    expect(await writePoint(client, 'd.fixed', 5)).toMatchObject({ status: 'refused', rule: 'not_writable' });
    const answer = await callTool(client, 'write_point', { point: 'd.levle', value: 5, reason: 'x' });
    expect(answer).toMatchObject({ isError: true, structured: {} });
    expect(answer.text).toContain('There is no point "d.levle"; near it: d.level');
  });

  test('missing and unknown arguments are named', async () => {
    const { client } = await plant();
    const answer = await callTool(client, 'write_point', { point: 'd.level', value: 5, confirm: true });
    expect(answer.isError).toBe(true);
    expect(answer.text).toContain('reason is missing');
    expect(answer.text).toContain('unknown argument "confirm"');
  });
});

describe('the present value', () => {
  test('an equal value is not sent', async () => {
    const { client, written, audit } = await plant();
    expect(await writePoint(client, 'd.level', 50)).toMatchObject({ status: 'unchanged', before: 50, after: 50 });
    expect(written()).toEqual([]);
    expect(audit()).toMatchObject([{ kind: 'outcome', status: 'unchanged' }]);
  });

  test('expected: another present value is a conflict', async () => {
    const { client, unit, written } = await plant();
    unit.set('holding', 0, 55);
    expect(await writePoint(client, 'd.level', 5, { expected: 50 })).toMatchObject({
      status: 'refused',
      rule: 'expected',
      reason: 'conflict: d.level was expected to be 50, and is 55',
      live: [{ point: 'd.level', value: 55 }],
    });
    expect(written()).toEqual([]);
    expect(await writePoint(client, 'd.level', 5, { expected: '55' })).toMatchObject({ status: 'written', before: 55 });
  });

  test('max_step counts from a fresh reading, not from the last poll', async () => {
    const { client, unit } = await plant();
    expect(await writePoint(client, 'd.step', 30.1)).toMatchObject({
      status: 'refused',
      rule: 'max_step',
      reason: expect.stringContaining('accepted now: 10 to 30 °C'),
    });
    expect(await writePoint(client, 'd.step', 30)).toMatchObject({ status: 'written', before: 20, after: 30 });
    unit.set('holding', 1, 500);
    expect(await writePoint(client, 'd.step', 35)).toMatchObject({ status: 'refused', rule: 'max_step' });
  });

  test('max_step with a present value that can not be read is refused', async () => {
    const { client, unit } = await plant();
    unit.tables.holding.delete(1);
    expect(await writePoint(client, 'd.step', 21)).toMatchObject({ status: 'refused', rule: 'max_step', before: null });
  });

  test('two clients write one point at once: one after the other, and the second sees what the first did', async () => {
    const { client, bridge, audit } = await plant();
    const other = await bridge.client('2025-11-25');
    const [a, b] = await Promise.all([writePoint(client, 'd.level', 60), writePoint(other, 'd.level', 70)]);
    const sorted = [a, b].sort((x, y) => Number(x.before) - Number(y.before)) as [WriteOutcome, WriteOutcome];
    expect(sorted.map(outcome => outcome.status)).toEqual(['written', 'written']);
    expect(sorted[0].before).toBe(50);
    expect(sorted[1].before).toBe(sorted[0].after);
    expect(audit().map(record => record.kind)).toEqual(['intent', 'outcome', 'intent', 'outcome']);
  });
});

describe('how often', () => {
  test('min_interval', async () => {
    const { client } = await plant();
    expect(await writePoint(client, 'd.slow', 2)).toMatchObject({ status: 'written' });
    expect(await writePoint(client, 'd.slow', 3)).toMatchObject({
      status: 'refused',
      rule: 'min_interval',
      reason: expect.stringMatching(/accepted in (9\.\d|10) s/),
    });
  });

  test('max_writes_per_minute for the whole bridge', async () => {
    const { client } = await plant({ max_writes_per_minute: 2 });
    expect(await writePoint(client, 'd.level', 1)).toMatchObject({ status: 'written' });
    expect(await writePoint(client, 'd.mode', 'auto')).toMatchObject({ status: 'written' });
    expect(await writePoint(client, 'd.level', 2)).toMatchObject({
      status: 'refused',
      rule: 'rate',
      reason: expect.stringContaining('max_writes_per_minute'),
    });
  });

  test('a repeat with the same request_id gets the first outcome and writes nothing; for another write it is refused', async () => {
    const { client, written, unit } = await plant();
    const first = await writePoint(client, 'd.level', 7, { request_id: 'r1' });
    unit.set('holding', 0, 50);
    expect(await writePoint(client, 'd.level', 7, { request_id: 'r1' })).toEqual(first);
    expect(written()).toHaveLength(1);
    expect(await writePoint(client, 'd.level', 8, { request_id: 'r1' })).toMatchObject({ status: 'refused', rule: 'request_id' });
    expect(written()).toHaveLength(1);
  });

  test('a dry run passes every gate, shows the bytes and sends nothing', async () => {
    const { client, written, audit } = await plant();
    expect(await writePoint(client, 'd.level', 7, { dry_run: true })).toMatchObject({
      status: 'simulated',
      before: 50,
      wire: ['010600000007'],
    });
    expect(await writePoint(client, 'd.level', 700, { dry_run: true })).toMatchObject({ status: 'refused', rule: 'limits' });
    expect(written()).toEqual([]);
    expect(audit().filter(record => record.kind === 'intent')).toEqual([]);
  });
});

describe('tools of the map', () => {
  test('a write tool lists limits and unit of its point, and answers with the outcome', async () => {
    const { client } = await plant();
    const tool = (await client.listTools()).tools.find(one => one.name === 'set_level');
    expect(tool?.inputSchema.properties?.value).toMatchObject({
      type: 'integer',
      minimum: 0,
      maximum: 100,
      description: expect.stringContaining('in %'),
    });
    expect(tool?.annotations).toMatchObject({ readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true });
    expect(await callTool(client, 'set_level', { value: '21' })).toMatchObject({
      isError: false,
      structured: { status: 'written', requested: 21, after: 21 },
    });
    expect(await callTool(client, 'set_level', { value: 101 })).toMatchObject({
      isError: true,
      structured: { status: 'refused', rule: 'limits' },
    });
    expect((await callTool(client, 'set_level')).text).toBe('value is missing');
  });

  test('a toggle takes the state it should have, and bare acts on a fresh reading', async () => {
    const { client, unit } = await plant();
    unit.set('coil', 0, 1);
    expect((await callTool(client, 'toggle_valve')).structured).toMatchObject({ status: 'written', before: true, after: false });
    expect((await callTool(client, 'toggle_valve', { to: 'true' })).structured).toMatchObject({
      status: 'written',
      before: false,
      after: true,
    });
    expect((await callTool(client, 'toggle_valve', { to: true })).structured).toMatchObject({ status: 'unchanged' });
    expect((await callTool(client, 'toggle_mode')).structured).toMatchObject({ status: 'written', before: 'off', after: 'auto' });
    expect((await callTool(client, 'toggle_mode', { to: 'turbo' })).structured).toMatchObject({
      status: 'refused',
      reason: expect.stringContaining('one of off, auto'),
    });
    expect(unit.tables.coil.get(0)).toBe(1);
  });

  test('a toggle of a state that can not be read is refused', async () => {
    const { client, unit, written } = await plant();
    unit.tables.coil.delete(0);
    expect((await callTool(client, 'toggle_valve')).structured).toMatchObject({ status: 'refused', rule: 'present_value' });
    expect(written()).toEqual([]);
  });

  test('steps stop at the first that is not written, and say what was not done', async () => {
    const { client, unit } = await plant();
    const answer = await callTool(client, 'shut_down', { reason: 'test' });
    expect(answer.isError).toBe(true);
    expect(answer.structured).toMatchObject({
      status: 'refused',
      outcomes: [
        { point: 'd.level', status: 'written' },
        { point: 'd.step', status: 'refused', rule: 'max_step' },
      ],
      not_done: ['d.valve'],
    });
    expect(answer.text).toContain('Stopped there; not done: d.valve');
    expect(unit.tables.coil.get(0)).toBe(0);
  });
});

describe('endings', () => {
  test('reading back switched off is unverified, and says why', async () => {
    const { client } = await plant();
    expect(await writePoint(client, 'd.blind', 9)).toMatchObject({ status: 'unverified', reason: expect.stringContaining('switched off') });
  });

  test('a device that is not there: nothing was sent, failed', async () => {
    const { client, plc, audit } = await plant();
    await plc.stop();
    const outcome = await writePoint(client, 'd.level', 9);
    expect(outcome).toMatchObject({ status: 'failed', reason: expect.stringContaining('nothing was sent') });
    expect(audit()).toMatchObject([{ kind: 'outcome', status: 'failed', point: 'd.level' }]);
  });

  test('the audit file has who, what, old, new, why and the bytes: the intent before the outcome', async () => {
    const { client, audit } = await plant();
    const outcome = await writePoint(client, 'd.level', 9, { reason: 'line one\nline "two"\u001b' });
    expect(audit()).toMatchObject([
      {
        kind: 'intent',
        audit_id: outcome.audit_id,
        point: 'd.level',
        before: 50,
        requested: 9,
        unit: '%',
        why: 'line one\nline "two"\u001b',
        principal: 'http',
        role: 'operator',
        client: 'test 1',
        wire: ['010600000009'],
      },
      { kind: 'outcome', audit_id: outcome.audit_id, status: 'written', after: 9, wire: ['010600000009'] },
    ]);
  });
});
