import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { callTool, deviceMap, readSamples, TestBridge, temporaryFolder, until, writePoint, writeYaml } from '../support/bridge.ts';
import { startCli } from '../support/cli.ts';
import { startPlc } from '../support/plc.ts';
import { recordsIn, safePlant } from '../support/safe-plant.ts';

const PULSE = { pump: { coil: 1, write: { pulse: '300ms' } } };
const LEASE = { heat: { holding: 0, write: { lease: { ttl: '600ms', safe: 20 } } } };

const coilOn = (unit: Pick<MemoryUnit, 'read'>): Promise<unknown> =>
  until(
    () => unit.read('coil', 1),
    value => value === 1,
  );

test('a pulse is on for its time and off again, and both are recorded', async () => {
  const { client, unit, written, audit } = await safePlant(PULSE);
  let on = 0;
  let off = 0;
  unit.onWrite = (_table, _address, value) => {
    if (value === 1) on = performance.now();
    else off = performance.now();
  };
  const outcome = await writePoint(client, 'd.pump', true);
  expect(outcome).toMatchObject({
    status: 'written',
    after: false,
    reason: expect.stringContaining('a pulse of 300 ms: it was seen on, and is off again'),
  });
  expect(off - on).toBeGreaterThan(290);
  expect(written()).toEqual(['050001ff00', '0500010000']);
  expect(audit()).toMatchObject([
    { kind: 'intent', pulse: 300, requested: true },
    { kind: 'intent', release: true, requested: false, audit_id: outcome.audit_id },
    { kind: 'outcome', status: 'written', audit_id: outcome.audit_id },
  ]);
  // A second one waits for its turn.
  const both = await Promise.all([writePoint(client, 'd.pump', true), writePoint(client, 'd.pump', true)]);
  expect(both.map(({ status }) => status)).toEqual(['written', 'written']);
  expect(unit.read('coil', 1)).toBe(0);
});

test('a device that does not answer in the middle of a pulse is let go of as soon as it does', async () => {
  const { client, unit, plc, bridge } = await safePlant(PULSE);
  const port = plc.port;
  unit.onWrite = (_table, _address, value) => {
    // It takes the contact, and then its line is cut.
    if (value === 1) setTimeout(() => void plc.stop(), 20);
  };
  const call = writePoint(client, 'd.pump', true);
  await new Promise(resolve => setTimeout(resolve, 1200));
  expect(unit.read('coil', 1)).toBe(1);
  await plc.start(port);
  expect(['written', 'unverified', 'unknown']).toContain((await call).status);
  expect(unit.read('coil', 1)).toBe(0);
  await bridge.stop();
});

test('the end of the bridge waits for a pulse to be let go of', async () => {
  const { client, unit, bridge } = await safePlant(PULSE);
  const call = writePoint(client, 'd.pump', true).catch(() => undefined);
  await coilOn(unit);
  await bridge.stop();
  expect(unit.read('coil', 1)).toBe(0);
  await call;
});

test('a long pulse is let go of before its time as the bridge ends', async () => {
  const { client, unit, bridge } = await safePlant({ pump: { coil: 1, write: { pulse: '60s' } } });
  const call = writePoint(client, 'd.pump', true).catch(() => undefined);
  await coilOn(unit);
  // Well before the minute, which no test has.
  await bridge.stop();
  expect(unit.read('coil', 1)).toBe(0);
  await call;
});

test('a write that is not renewed in time is followed by the safe value, and that is said', async () => {
  const { client, unit, audit, bridge } = await safePlant(LEASE);
  expect((await writePoint(client, 'd.heat', 60)).status).toBe('written');
  const { structured } = await callTool(client, 'get_status');
  expect(structured.bridge).toMatchObject({ leases: [{ point: 'd.heat', safe_value_at: expect.stringMatching(/^2/) }] });
  // An equal value sends nothing, and renews.
  for (let i = 0; i < 3; i++) {
    await new Promise(resolve => setTimeout(resolve, 350));
    expect((await writePoint(client, 'd.heat', 60)).status).toBe('unchanged');
  }
  expect(unit.read('holding', 0)).toBe(60);
  await until(
    () => unit.read('holding', 0),
    value => value === 20,
  );
  await until(audit, records => records.length === 7);
  expect(audit().slice(-2)).toMatchObject([
    { kind: 'intent', principal: 'bridge', lease_end: true, requested: 20 },
    { kind: 'outcome', lease_end: true, status: 'written' },
  ]);
  expect((await writePoint(client, 'd.heat', 20)).status).toBe('unchanged');
  expect(bridge.open.sessions).toBe(0);
});

test('a lease that ran as the bridge was ended is taken up by the next: the safe value comes when it is due', async () => {
  const { client, unit, plc, bridge } = await safePlant(LEASE);
  await writePoint(client, 'd.heat', 60);
  await bridge.stop();
  await new Promise(resolve => setTimeout(resolve, 700));
  expect(unit.read('holding', 0)).toBe(60);
  await TestBridge.start(deviceMap(plc.port, LEASE, { safety: { writes: 'enabled', audit: bridge.auditFile } }));
  await until(
    () => unit.read('holding', 0),
    value => value === 20,
  );
});

test('the heartbeat goes on while the bridge lives, and writes of others beside it', async () => {
  const points = { alive: { holding: 5, write: {} }, level: { holding: 0, write: {} } };
  const { client, unit, bridge, audit } = await safePlant(points, { heartbeat: { point: 'd.alive', interval: '50ms' } });
  const first = Number(unit.read('holding', 5));
  expect((await writePoint(client, 'd.level', 5)).status).toBe('written');
  await until(
    () => Number(unit.read('holding', 5)) - first,
    beats => beats >= 5,
  );
  await bridge.stop();
  const last = unit.read('holding', 5);
  await new Promise(resolve => setTimeout(resolve, 200));
  expect(unit.read('holding', 5)).toBe(last);
  expect(audit().filter(({ point }) => point === 'd.alive')).toEqual([]);
});

test('nothing is written by itself where writes are not enabled', async () => {
  const { written } = await safePlant(
    { alive: { holding: 5, write: {} } },
    { writes: 'simulated', heartbeat: { point: 'd.alive', interval: '20ms' } },
  );
  await new Promise(resolve => setTimeout(resolve, 300));
  expect(written()).toEqual([]);
});

test('SIGTERM in the middle of a pulse: the contact is let go of, the outcome is in the record, and the end is a clean one', async () => {
  const folder = temporaryFolder();
  const unit = new MemoryUnit().set('coil', 0, 0, 0);
  const plc = await startPlc(unit);
  const audit = join(folder, 'audit.jsonl');
  const map = deviceMap(
    plc.port,
    { pump: { coil: 1, write: { pulse: '700ms' } } },
    {
      safety: { writes: 'enabled', audit },
      http: { listen: '127.0.0.1:0' },
    },
  );
  const file = writeYaml(folder, stringify(map));
  const daemon = startCli(['run', file]);
  const exit = new Promise(resolve => daemon.on('exit', resolve));
  await until(
    () => recordsIn(audit).length >= 0 && existsSync(`${audit}.control`),
    isUp => isUp,
  );
  const writing = startCli(['write', file, 'd.pump', 'true']);
  await coilOn(unit);
  daemon.kill('SIGTERM');
  expect(await exit).toBe(0);
  expect(unit.read('coil', 1)).toBe(0);
  expect(recordsIn(audit).map(({ kind, status }) => [kind, status])).toEqual([
    ['intent', undefined],
    ['intent', undefined],
    ['outcome', 'written'],
  ]);
  writing.kill('SIGKILL');
});

test('killed at any moment of a pulse: every request has its intent on the disk, none is repeated, and the next run lets go', async () => {
  const folder = temporaryFolder();
  const unit = new MemoryUnit().set('coil', 0, 0, 0);
  const plc = await startPlc(unit);
  plc.keepRequests = 100_000;
  const audit = join(folder, 'audit.jsonl');
  const map = deviceMap(
    plc.port,
    { pump: { coil: 1, write: { pulse: '150ms' } } },
    {
      safety: { writes: 'enabled', audit },
      stdio: { role: 'operator' },
    },
  );
  const file = writeYaml(folder, stringify(map));
  const lines = [
    { id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'k', version: '1' } } },
    { method: 'notifications/initialized' },
    { id: 2, method: 'tools/call', params: { name: 'write_point', arguments: { point: 'd.pump', value: true, reason: 'test' } } },
  ].map(message => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const ons = () => plc.requests.filter(({ pdu }) => pdu.toString('hex') === '050001ff00').length;
  const rounds = Number(process.env.KILLS ?? 4);
  for (let round = 0; round < rounds; round++) {
    const before = ons();
    const child = startCli(['stdio', file]);
    const gone = new Promise(resolve => child.on('exit', resolve));
    child.stdin?.write(lines.join(''));
    // From the moment the write is on its way: before its intent, between intent and wire, while it is on, as it is let go of.
    await until(
      () => recordsIn(audit).length,
      () => ons() > before || round % 3 === 0,
    ).catch(() => undefined);
    await new Promise(resolve => setTimeout(resolve, round % 3 === 0 ? 250 + 40 * round : Math.random() * 200));
    child.kill('SIGKILL');
    await gone;
    // Nothing is sent twice by a run, and nothing that is not on the disk.
    expect(ons() - before).toBeLessThanOrEqual(1);
    const intents = recordsIn(audit).filter(({ kind, pulse }) => kind === 'intent' && pulse !== undefined).length;
    expect(ons()).toBeLessThanOrEqual(intents);
    const next = startCli(['stdio', file]);
    await until(
      () => [unit.read('coil', 1), recordsIn(audit).at(-1)?.kind],
      ([coil, last]) => coil === 0 && (last === 'outcome' || last === undefined),
    );
    next.kill('SIGTERM');
    await new Promise(resolve => next.on('exit', resolve));
  }
  const records = recordsIn(audit);
  const open = new Set(records.filter(({ kind, pulse }) => kind === 'intent' && pulse !== undefined).map(({ audit_id }) => audit_id));
  for (const { kind, audit_id } of records) if (kind === 'outcome') open.delete(audit_id);
  expect([...open]).toEqual([]);
}, 120_000);

test('on_restart: report leaves the contact as it is, and says so', async () => {
  const folder = temporaryFolder();
  const unit = new MemoryUnit().set('coil', 0, 0, 0);
  const plc = await startPlc(unit);
  const audit = join(folder, 'audit.jsonl');
  const map = deviceMap(
    plc.port,
    { pump: { coil: 1, write: { pulse: '5s', on_restart: 'report' } } },
    { safety: { writes: 'enabled', audit }, http: { listen: '127.0.0.1:0' } },
  );
  const file = writeYaml(folder, stringify(map));
  const writing = startCli(['write', file, 'd.pump', 'true']);
  const gone = new Promise(resolve => writing.on('exit', resolve));
  await coilOn(unit);
  writing.kill('SIGKILL');
  await gone;
  const next = startCli(['run', file]);
  let log = '';
  next.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  await until(
    () => log,
    text => text.includes('an earlier run was ended during a pulse of d.pump: it is on'),
  );
  await until(
    () => recordsIn(audit).at(-1),
    last => last?.kind === 'outcome',
  );
  expect(unit.read('coil', 1)).toBe(1);
  expect(recordsIn(audit).at(-1)).toMatchObject({ status: 'unknown', reason: expect.stringContaining('found on, now on') });
});

test('a read before the first poll is not kept from its answer by what is taken up', async () => {
  const { plc } = await safePlant({ level: { holding: 0 } });
  const bridge = await TestBridge.start(deviceMap(plc.port, { level: { holding: 0, write: {} } }, { safety: { writes: 'enabled' } }));
  expect((await readSamples(await bridge.client(), ['d.level']))[0]?.quality).toBe('good');
});
