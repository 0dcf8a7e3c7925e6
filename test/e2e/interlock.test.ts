import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { conjuncts } from '../../src/expression/terms.ts';
import { callTool, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { startPlc } from '../support/plc.ts';
import { safePlant } from '../support/safe-plant.ts';

const POINTS = {
  pressure: { holding: 1, scale: 0.1, unit: 'bar', poll_interval: '60s' },
  mode: { holding: 2, enum: { 0: 'off', 1: 'auto' }, poll_interval: '60s' },
  sick: { holding: 3, invalid: [0xffff], poll_interval: '60s' },
  setpoint: { holding: 0, write: { interlock: 'd.pressure < 6.0 && d.mode == "auto"' } },
  valve: { coil: 0, write: { interlock: 'd.sick > 0.0 || d.pressure > 100.0' } },
};

test('a write goes on only while the interlock holds, judged by what the PLC says at that moment', async () => {
  const { unit, client, written, audit } = await safePlant(POINTS);
  unit.set('holding', 1, 50, 1);
  expect((await writePoint(client, 'd.setpoint', 5)).status).toBe('written');
  // Polled once a minute: the value that decides is read with the write, in the same slot of the bus.
  unit.set('holding', 1, 65);
  const refused = await writePoint(client, 'd.setpoint', 6);
  expect(refused).toMatchObject({ status: 'refused', rule: 'interlock', before: 5 });
  expect(refused.reason).toBe("the interlock's d.pressure < 6.0 does not hold: d.pressure = 6.5 bar; accepted when it holds");
  expect(refused.live).toMatchObject([{ point: 'd.pressure', value: 6.5 }]);
  unit.set('holding', 1, 50, 0);
  expect((await writePoint(client, 'd.setpoint', 6)).reason).toContain('d.mode == "auto" does not hold: d.mode = "off"');
  expect(written()).toHaveLength(1);
  expect(audit().map(({ kind, rule }) => [kind, rule])).toEqual([
    ['intent', undefined],
    ['outcome', undefined],
    ['refusal', 'interlock'],
    ['refusal', 'interlock'],
  ]);
  // A dry run is judged by it too.
  expect((await writePoint(client, 'd.setpoint', 6, { dry_run: true })).rule).toBe('interlock');
});

test('an input that is not known, or not certain, refuses, whatever the rest says', async () => {
  const { unit, client, written } = await safePlant(POINTS);
  unit.set('holding', 1, 2000, 1, 0xffff);
  const outcome = await writePoint(client, 'd.valve', true);
  expect(outcome).toMatchObject({ status: 'refused', rule: 'interlock' });
  expect(outcome.reason).toContain('can not be judged: d.sick is not known (not_available)');
  unit.set('holding', 3, 1);
  expect((await writePoint(client, 'd.valve', true)).status).toBe('written');
  expect(written()).toHaveLength(1);
});

test('inputs on another connection are read as the write is made, and where they do not answer, it is refused', async () => {
  const [here, there] = [new MemoryUnit().set('holding', 0, 1), new MemoryUnit().set('holding', 0, 1)];
  const [plc, other] = [await startPlc(here), await startPlc(there)];
  const connection = (port: number) => ({
    type: 'modbus-tcp',
    host: '127.0.0.1',
    port,
    timeout: '300ms',
    reconnect: { initial: '50ms', max: '100ms' },
  });
  const bridge = await TestBridge.start({
    connections: { a: connection(plc.port), b: connection(other.port) },
    devices: {
      here: { connection: 'a', poll_interval: '60s', points: { level: { holding: 0, write: { interlock: 'there.release == 1.0' } } } },
      there: { connection: 'b', poll_interval: '60s', points: { release: { holding: 0, write: { interlock: 'here.level > 0.0' } } } },
    },
    safety: { writes: 'enabled' },
  });
  const client = await bridge.client();
  await until(
    () => readSamples(client, ['*']),
    samples => samples.every(sample => sample.quality === 'good'),
  );
  expect((await writePoint(client, 'here.level', 2)).status).toBe('written');
  there.set('holding', 0, 0);
  expect(await writePoint(client, 'here.level', 3)).toMatchObject({ status: 'refused', rule: 'interlock' });
  // Two that look at each other while both hold their bus do not wait for each other for ever.
  there.set('holding', 0, 1);
  const both = await Promise.all([writePoint(client, 'here.level', 4), writePoint(client, 'there.release', 1)]);
  for (const { status } of both) expect(['written', 'refused', 'unchanged']).toContain(status);
  await other.stop();
  const silent = await writePoint(client, 'here.level', 5);
  expect(silent).toMatchObject({ status: 'refused', rule: 'interlock' });
  expect(silent.reason).toMatch(/there\.release (is not known|could not be read in time)/);
});

test('verify by another point: its tolerance decides', async () => {
  const { unit, client } = await safePlant({
    shown: { holding: 5 },
    wanted: { holding: 4, write: { verify: { point: 'd.shown', within: '500ms', tolerance: 2 } } },
  });
  unit.onWrite = (_table, address, value) => {
    if (address === 4) unit.set('holding', 5, value + 2);
  };
  expect((await writePoint(client, 'd.wanted', 40)).status).toBe('written');
  unit.onWrite = () => undefined;
  const stuck = await writePoint(client, 'd.wanted', 50);
  expect(stuck.status).toBe('unverified');
  expect(stuck.reason).toContain('d.shown shows 42');
});

test('max_per_day counts what was sent within 24 hours, across restarts', async () => {
  const points = { level: { holding: 0, write: { max_per_day: 2 } } };
  const { client, bridge, plc } = await safePlant(points);
  expect((await writePoint(client, 'd.level', 1)).status).toBe('written');
  expect((await writePoint(client, 'd.level', 1)).status).toBe('unchanged');
  await bridge.stop();
  const again = await TestBridge.start({
    connections: { plc: { type: 'modbus-tcp', host: '127.0.0.1', port: plc.port } },
    devices: { d: { connection: 'plc', poll_interval: '50ms', points } },
    safety: { writes: 'enabled', audit: bridge.auditFile },
  });
  const later = await again.client();
  await until(
    () => readSamples(later, ['d.level']),
    ([sample]) => sample?.quality === 'good',
  );
  expect((await writePoint(later, 'd.level', 2)).status).toBe('written');
  const refused = await writePoint(later, 'd.level', 3);
  expect(refused).toMatchObject({ status: 'refused', rule: 'max_per_day' });
  expect(refused.reason).toMatch(/written 2 times in the last 24 hours, and max_per_day is 2; accepted in 2[34] ?h/);
});

test('writes: simulated runs every rule, sends nothing, and records what would have been sent', async () => {
  const { client, written, audit } = await safePlant({ level: { holding: 0, write: { max: 10 } } }, { writes: 'simulated' });
  const outcome = await writePoint(client, 'd.level', 5);
  expect(outcome).toMatchObject({ status: 'simulated', wire: ['010600000005'] });
  expect(outcome.reason).toContain('writes are simulated');
  expect((await writePoint(client, 'd.level', 50)).rule).toBe('limits');
  expect(written()).toEqual([]);
  expect(audit().map(({ kind, status }) => [kind, status])).toEqual([
    ['outcome', 'simulated'],
    ['refusal', 'refused'],
  ]);
  expect((await callTool(client, 'get_status')).structured.bridge).toMatchObject({ writes: 'simulated' });
});

test('a condition is taken apart at its outermost ands, and at nothing else', () => {
  expect(conjuncts('a.b < 1.0 && (c.d || e.f) && g.h == "x && y"')).toEqual(['a.b < 1.0', '(c.d || e.f)', 'g.h == "x && y"']);
  expect(conjuncts('a.b && c.d || e.f')).toEqual(['a.b && c.d || e.f']);
  expect(conjuncts('a.b ? c.d && e.f : g.h')).toEqual(['a.b ? c.d && e.f : g.h']);
  fc.assert(
    fc.property(fc.array(fc.constantFrom('a.b', '(a.b && c.d)', '"&&"', "'\\'&&'", '[1 && 2]', '!a.b'), { minLength: 1 }), parts => {
      expect(conjuncts(parts.join(' && '))).toEqual(parts);
    }),
  );
});
