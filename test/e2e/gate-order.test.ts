import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { Bridge } from '../../src/bridge.ts';
import type { WriteOutcome } from '../../src/model/write.ts';
import { readConfig } from '../../src/protocols.ts';
import { clientOptions, deviceMap, temporaryFolder, writePoint, writeYaml } from '../support/bridge.ts';
import { runCli } from '../support/cli.ts';
import { startPlc } from '../support/plc.ts';

/** What violates a gate: something in the map, something beside it, something in the request. */
interface Gate {
  readonly rule: string;
  readonly write?: object;
  readonly safety?: object;
  readonly args?: Readonly<Record<string, unknown>>;
  /** A write before, for gates that count. */
  readonly before?: number;
}

/** In the order in which they are asked. */
const GATES: readonly Gate[] = [
  { rule: 'writes_disabled', safety: { writes: 'disabled' } },
  { rule: 'kill_switch' },
  { rule: 'expected', args: { expected: 77 } },
  { rule: 'role', write: { role: 'engineer' } },
  { rule: 'limits', write: { max: 40 } },
  { rule: 'max_step', write: { max_step: 10 } },
  { rule: 'min_interval', write: { min_interval: '1h' }, before: 6 },
  { rule: 'max_per_day', write: { max_per_day: 1 }, before: 6 },
  { rule: 'rate', safety: { max_writes_per_minute: 1 }, before: 6 },
  { rule: 'interlock', write: { interlock: 'd.release > 0.0' } },
];
/** Each alone, and each with one that comes later: the first of them answers. */
const CASES = GATES.flatMap((gate, i) => [[gate], ...GATES.slice(i + 1).map(later => [gate, later])]);

async function mapOf(gates: readonly Gate[]) {
  const unit = new MemoryUnit().set('holding', 0, 5, 1);
  const plc = await startPlc(unit);
  plc.keepRequests = 1000;
  const folder = temporaryFolder();
  const safety = Object.assign(
    { writes: 'enabled', audit: join(folder, 'audit.jsonl'), kill_switch: join(folder, 'stop') },
    ...gates.map(gate => gate.safety),
  );
  const write = Object.assign({}, ...gates.map(gate => gate.write)) as object;
  const points = { level: { holding: 0, write }, release: { holding: 1 } };
  // The role that a map gives to stdio; over HTTP everybody of this machine is an operator.
  const map = deviceMap(plc.port, points, { safety, stdio: { role: 'operator' }, http: { listen: '127.0.0.1:0' } });
  return { unit, plc, folder, file: writeYaml(folder, map) };
}

type Write = (value: number, args: Readonly<Record<string, unknown>>) => Promise<Pick<WriteOutcome, 'status' | 'rule'>>;

/** Does what comes before, sets up what is violated from now on, and says which gate answered. */
async function ruleOf(gates: readonly Gate[], plant: Awaited<ReturnType<typeof mapOf>>, write: Write): Promise<string | undefined> {
  const before = gates.find(gate => gate.before !== undefined)?.before;
  // Where nothing is written, or not by this role, nothing gets as far as to be counted.
  if (before !== undefined && gates.every(gate => gate.rule !== 'role' && gate.rule !== 'writes_disabled'))
    expect((await write(before, {})).status).toBe('written');
  plant.unit.set('holding', 1, 0);
  if (gates.some(gate => gate.rule === 'kill_switch')) writeFileSync(join(plant.folder, 'stop'), '');
  const outcome = await write(50, Object.assign({}, ...gates.map(gate => gate.args)) as Readonly<Record<string, unknown>>);
  rmSync(join(plant.folder, 'stop'), { force: true });
  expect(outcome.status).toBe('refused');
  return outcome.rule;
}

const nameOf = (gates: readonly Gate[]): string => gates.map(({ rule }) => rule).join(' before ');

/** A bridge in this process, on a pair of streams. */
async function onStdio(file: string): Promise<Write> {
  const bridge = await Bridge.create(readConfig([file]), { version: '0', readOnly: false, log: pino({ level: 'silent' }) });
  const [input, output] = [new PassThrough(), new PassThrough()];
  bridge.start();
  void bridge.serve(input, output);
  onTestFinished(() => bridge.stop());
  const answers = createInterface({ input: output })[Symbol.asyncIterator]();
  const ask = async (id: number, method: string, params: object): Promise<{ structuredContent?: unknown }> => {
    input.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    for (;;) {
      const { value } = (await answers.next()) as { value: string };
      const answer = JSON.parse(value) as { id?: number; result?: { structuredContent?: unknown } };
      if (answer.id === id) return answer.result ?? {};
    }
  };
  await ask(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } });
  let id = 1;
  return async (value, args) => {
    const called = await ask(++id, 'tools/call', { name: 'write_point', arguments: { point: 'd.level', value, reason: 'test', ...args } });
    return called.structuredContent as WriteOutcome;
  };
}

async function onHttp(file: string): Promise<Write> {
  const bridge = await Bridge.create(readConfig([file]), { version: '0', readOnly: false, log: pino({ level: 'silent' }) });
  bridge.start();
  onTestFinished(() => bridge.stop());
  const client = new Client({ name: 'test', version: '1' }, clientOptions('2026-07-28'));
  await client.connect(new StreamableHTTPClientTransport(new URL(await bridge.listen())));
  onTestFinished(() => client.close());
  return (value, args) => writePoint(client, 'd.level', value, args);
}

describe.each([
  ['HTTP', onHttp],
  ['stdio', onStdio],
] as const)('over %s', (_way, open) => {
  test.each(CASES.map(gates => [nameOf(gates), gates] as const))('%s', async (_name, gates) => {
    const plant = await mapOf(gates);
    expect(await ruleOf(gates, plant, await open(plant.file))).toBe(gates[0]?.rule);
  });
});

describe('from the command line', () => {
  // What is believed is no option there, and a run of its own counts no minute and no interval.
  const known = GATES.filter(({ rule }) => !['expected', 'min_interval', 'rate'].includes(rule));
  const cases = [...known.map(gate => [gate]), known.slice(0, 2), known.slice(-2)];
  test.each(cases.map(gates => [nameOf(gates), gates] as const))('%s', async (_name, gates) => {
    const plant = await mapOf(gates);
    const write: Write = async value => {
      const { stdout } = await runCli(['write', plant.file, 'd.level', String(value)]);
      const [, status = ''] = /^d\.level: (\w+)/.exec(stdout) ?? [];
      const words: Readonly<Record<string, string>> = {
        writes_disabled: 'writes are disabled',
        kill_switch: 'kill switch',
        role: 'may be written by the role',
        limits: 'above max',
        max_step: 'more than max_step',
        max_per_day: 'max_per_day is 1',
        interlock: "the interlock's",
      };
      const rule = Object.entries(words).find(([, text]) => stdout.includes(text))?.[0];
      return { status: status as WriteOutcome['status'], ...(rule !== undefined && { rule }) };
    };
    expect(await ruleOf(gates, plant, write)).toBe(gates[0]?.rule);
  });
});
