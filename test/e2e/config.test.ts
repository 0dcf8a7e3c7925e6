import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { ModbusPoint } from '../../src/drivers/modbus/point.ts';
import { ConfigError, type Problem } from '../../src/model/errors.ts';
import { readConfig } from '../../src/protocols.ts';
import { temporaryFolder, writeYaml } from '../support/bridge.ts';
import { runCli } from '../support/cli.ts';

interface Case {
  readonly id: string;
  readonly lesson?: string;
  readonly yaml: string;
  readonly device?: string;
  readonly address?: number;
  readonly error?: string;
  readonly at?: string;
  readonly count?: number;
}

const cases = parse(readFileSync(new URL('../cases/config.yaml', import.meta.url), 'utf8')) as Record<string, Case[]>;
const named = (group: string): [string, Case][] =>
  (cases[group] ?? []).map(one => [one.lesson === undefined ? one.id : `${one.id}: ${one.lesson}`, one]);

function problemsOf(...texts: readonly string[]): readonly Problem[] {
  const folder = temporaryFolder();
  try {
    readConfig(texts.map((text, i) => writeYaml(folder, text, `map-${i}.yaml`)));
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

const HEAD = 'bridge: { name: test }\nconnections: { plc: { type: modbus-tcp, host: 127.0.0.1 } }\n';
const indented = (text: string): string =>
  text
    .split('\n')
    .map(line => (line.startsWith('\t') ? line : `      ${line}`))
    .join('\n');

/** The point entries stand from line 6 on, in column 7. */
function withPoints(one: Case): string {
  const head =
    one.device === undefined ? 'devices:\n  d:\n    points:\n' : `devices:\n  d:\n    connection: plc\n    ${one.device}\n    points:\n`;
  return `${HEAD}${head}${indented(one.yaml)}\n${one.device === undefined ? '    connection: plc\n' : ''}`;
}

const REST = `${HEAD}devices:\n  d: { connection: plc, points: { flow_temperature: { input: 0 }, valve: { coil: 0, write: {} },\n    level: { holding: 0, write: { min: 0, max: 100 } } } }\n# the case:\n`;

function expectProblem(one: Case, problems: readonly Problem[]): void {
  const found = problems.find(problem => problem.message.includes(one.error ?? ''));
  expect(
    found,
    `among: ${problems.map(problem => `${problem.line}:${problem.column} ${problem.path}: ${problem.message}`).join('\n')}`,
  ).toBeDefined();
  if (one.at !== undefined) expect(`${found?.line}:${found?.column}`).toBe(one.at);
  expect(problems).toHaveLength(one.count ?? 1);
}

describe('points of a map', () => {
  test.each(named('points'))('%s', (_, one) => {
    if (one.error !== undefined) return expectProblem(one, problemsOf(withPoints(one)));
    const folder = temporaryFolder();
    const config = readConfig([writeYaml(folder, withPoints(one))]);
    return expect([...config.plant.points.values()].map(point => (point as ModbusPoint).address)).toEqual([one.address]);
  });

  test('yaml-off-label: off, on, no and yes are labels as they stand', () => {
    const folder = temporaryFolder();
    const config = readConfig([
      writeYaml(folder, withPoints({ id: '', yaml: 'a: { holding: 1, enum: { 0: off, 1: on, 2: no, 0x3: yes } }' })),
    ]);
    expect(config.plant.points.get('d.a')?.value).toEqual({ kind: 'enum', labels: ['off', 'on', 'no', 'yes'] });
  });
});

describe('the rest of a map', () => {
  test.each(named('rest'))('%s', (_, one) => expectProblem(one, problemsOf(`${REST}${one.yaml}\n`)));
});

describe('points behind a broker', () => {
  test.each([
    ['{ topic: t, write: { topic: s, min: 5, max: 1 } }', 'min 5 is above max 1'],
    ['{ topic: t, write: { min: 5 } }', 'needs the topic that it is published to'],
    ['{ topic: t, write: { topic: a/+ } }', 'without + and #'],
    ['{ topic: $share/g/t }', 'leave $share and its group out'],
    ['{ topic: a+b }', '+ and # stand for whole levels'],
    ['{ topic: t, on: x }', 'on and off are payloads of a bool'],
    ['{ topic: t, value: payload. }', 'Expected IDENTIFIER, got EOF'],
    ['{ topic: t, encoding: binary, value: payload.x }', 'in a binary payload `at` says where the value is'],
    ['{ topic: t, encoding: binary, type: uint16, at: 2, write: { topic: s } }', 'the rest of the payload is not known'],
    ['{ topic: t, encoding: binary, type: uint16, at: 0, write: { topic: s } }', 'the rest of the payload is not known'],
    ['{ topic: t, encoding: latin1 }', 'only a string has the encoding latin1'],
    ['{ topic: t, type: bcd16 }', 'Others need an encoding, such as binary'],
    ['{ topic: t, timestamp: payload. }', 'Expected IDENTIFIER, got EOF'],
    ['{ topic: t, write: { topic: s, payload: payload.x } }', 'Unknown variable: payload'],
    ['{ topic: t, write: { topic: s, response: { topic: a/# } } }', 'a device answers on one topic'],
    ['{ type: bool }', 'exactly one of coil, discrete, input, holding, register, topic, metric is expected; it has none of them'],
    ['{ write: { topic: s }, value: payload }', 'this point has no topic to hear any'],
    ['{ metric: Flow }', 'a metric needs a Sparkplug device'],
    ['{ topic: t, bit: 3 }', 'bit says how a value lies in bytes'],
  ])('%s', (yaml, message) => {
    const map = `connections: { b: { type: mqtt, url: 'mqtt://a' } }\ndevices: { d: { connection: b, points: { p: ${yaml} } } }\n`;
    expect(problemsOf(map).map(problem => problem.message)).toContainEqual(expect.stringContaining(message));
  });
});

describe('connections', () => {
  test.each(named('connections'))('%s', (_, one) =>
    expectProblem(one, problemsOf(`bridge: { name: test }\nconnections:\n  plc: ${one.yaml}\ndevices: {}\n`)),
  );

  test('two connections to one host and port are refused, since many devices accept one client only', () => {
    const problems = problemsOf(
      'bridge: { name: test }\nconnections:\n  a: { type: modbus-tcp, host: PLC.example }\n  b: { type: modbus-tcp, host: plc.example, port: 502 }\ndevices: {}\n',
    );
    expect(problems).toMatchObject([
      { line: 4, column: 3, message: expect.stringContaining('plc.example:502 is the connection a already') },
    ]);
  });

  test('two connections to one serial device, or to one host by two names, are one too many', () => {
    const two = (a: string, b: string) => problemsOf(`bridge: { name: test }\nconnections:\n  a: ${a}\n  b: ${b}\ndevices: {}\n`).length;
    expect(two('{ type: modbus-rtu, path: /dev/ttyUSB0 }', '{ type: modbus-rtu, path: /dev/ttyUSB0, baud_rate: 9600 }')).toBe(1);
    expect(two('{ type: modbus-rtu, path: /dev/ttyUSB0 }', '{ type: modbus-rtu, path: /dev/ttyUSB1 }')).toBe(0);
    expect(two('{ type: modbus-tcp, host: localhost }', '{ type: modbus-rtu-over-tcp, host: 127.0.0.1, port: 502 }')).toBe(1);
    expect(two('{ type: modbus-tcp, host: plc }', '{ type: modbus-udp, host: plc }')).toBe(0);
  });

  test('a device without points, and without the template of a known one', () => {
    expect(problemsOf(`${HEAD}devices: { d: { connection: plc } }\n`)).toMatchObject([
      { line: 3, message: expect.stringContaining('points is missing, or `use`') },
    ]);
  });

  test('a device without a connection of that name', () => {
    const problems = problemsOf(`${HEAD}devices: { d: { connection: plcc, points: {} } }\n`);
    expect(problems).toMatchObject([{ line: 3, message: 'no connection plcc, did you mean plc?' }]);
  });
});

describe('files as YAML', () => {
  test('yaml-bomb: aliases of aliases end within a second', () => {
    const lines = [
      'a0: &a0 [ x, x, x, x, x, x, x, x, x, x ]',
      ...Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [ ${Array(10).fill(`*a${i}`).join(', ')} ]`),
    ];
    const started = performance.now();
    expect(problemsOf(lines.join('\n'))).toMatchObject([{ message: expect.stringContaining('expand to more than the bridge accepts') }]);
    expect(performance.now() - started).toBeLessThan(1000);
  });

  test('aliases in measure are taken, and a mistake behind one has a place', () => {
    const text = `${HEAD}devices:\n  d:\n    connection: plc\n    points:\n      a: { holding: 1, write: &w { min: 1, max: 5 } }\n      b: { holding: 2, write: *w }\n`;
    expect(problemsOf(text)).toEqual([]);
    expect(problemsOf(text.replace('min: 1', 'min: 9')).length).toBe(1);
  });

  test('nesting without end is refused', () => {
    expect(problemsOf(`a: ${'['.repeat(20_000)}`)).toMatchObject([{ line: 1, message: 'the file is nested too deeply' }]);
  });

  test('an empty file, and one that is not there', () => {
    expect(problemsOf('')[0]?.message).toBe('the file is empty');
    expect(() => readConfig(['/no/such/map.yaml'])).toThrow('/no/such/map.yaml:1:1: the file can not be read: there is no such file');
  });

  test('several files are merged in order, and each mistake is told with its own file', () => {
    const folder = temporaryFolder();
    const first = writeYaml(
      folder,
      `${HEAD}devices: { d: { connection: plc, unit_id: 1, points: { a: { holding: 1 } } } }\n`,
      'first.yaml',
    );
    const second = writeYaml(
      folder,
      'devices: { d: { unit_id: 7, points: { b: { holding: 2 } } } }\nlog: { level: warn }\n',
      'second.yaml',
    );
    const config = readConfig([first, second]);
    expect([...config.plant.points.keys()]).toEqual(['d.a', 'd.b']);
    expect(config.devices[0]?.raw.unit_id).toBe(7);
    expect(config.log.level).toBe('warn');
    writeFileSync(second, 'devices:\n  d:\n    points:\n      b: { holding: no }\n');
    expect(() => readConfig([first, second])).toThrow(
      /second\.yaml:4:21: devices\.d\.points\.b\.holding: expected a whole number; got "no"/,
    );
  });
});

test('a map needs no bridge entry: the name is fieldbridge then, and the audit file is named after it', () => {
  const { bridge, safety } = readConfig([writeYaml(temporaryFolder(), 'connections: {}\ndevices: {}\n')]);
  expect(bridge).toEqual({ name: 'fieldbridge', notifyInterval: 100 });
  expect(safety.audit.path).toMatch(/\/fieldbridge\.audit\.jsonl$/);
});

describe('secrets', () => {
  const map = (host: object) => ({ bridge: { name: 'test' }, connections: { plc: { type: 'modbus-tcp', host } }, devices: {} });

  test('a text from the environment, and one from a file beside the map', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'host'), 'plc.example\n');
    process.env.FIELDBRIDGE_TEST_HOST = 'other.example';
    expect(readConfig([writeYaml(folder, map({ file: 'host' }))]).connections[0]?.raw.host).toBe('plc.example');
    expect(readConfig([writeYaml(folder, map({ env: 'FIELDBRIDGE_TEST_HOST' }))]).connections[0]?.raw.host).toBe('other.example');
    delete process.env.FIELDBRIDGE_TEST_HOST;
  });

  test('no message repeats a secret', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'secret'), 'tops3cret');
    const file = writeYaml(folder, { ...map({ file: 'secret' }), safety: { writes: { file: 'secret' } } });
    const message = (() => {
      try {
        readConfig([file]);
      } catch (error) {
        return String(error);
      }
      return '';
    })();
    expect(message).toContain('safety.writes: expected one of disabled, simulated, enabled; got a secret');
    expect(message).not.toContain('tops3cret');
  });
});

describe('the command line', () => {
  const MISTAKES = `bridge: { name: Test }
connections:
  plc: { type: modbus-tcp, host: 127.0.0.1, prot: 502 }
devices:
  d:
    connection: plcs
    poll_interval: 1
    points:
      a: { coil: 1, writeable: true }
      b: { holding: 65535, type: uint32 }
      c: { input: 1, write: {} }
      e: { holding: 1, coil: 2 }
tools:
  t: { read: [ d.aa ] }
safety: { writes: on }
`;

  test('ten mistakes print ten messages with their lines and end with 2, before any connection', async () => {
    const folder = temporaryFolder();
    const file = writeYaml(folder, MISTAKES);
    for (const command of ['check', 'run', 'stdio']) {
      const { code, stdout, stderr } = await runCli([command, file]);
      expect(code).toBe(2);
      expect(stdout).toBe('');
      const lines = stderr.trim().split('\n');
      expect(lines).toHaveLength(11);
      expect(lines.at(-1)).toBe('10 mistakes in the configuration; nothing was started.');
      const places = lines.slice(0, -1).map(line => /^.*map\.yaml:(\d+):(\d+): ([\w.[\]]+): ./.exec(line)?.slice(1, 4).join(' '));
      expect(places).toEqual([
        '1 17 bridge.name',
        '3 45 connections.plc.prot',
        '6 17 devices.d.connection',
        '7 20 devices.d.poll_interval',
        '9 21 devices.d.points.a.writeable',
        '10 21 devices.d.points.b.holding',
        '11 22 devices.d.points.c.write',
        '12 7 devices.d.points.e',
        '14 16 tools.t.read[0]',
        '15 19 safety.writes',
      ]);
    }
  });

  test('check says what a sound map holds, and warns of what is odd', async () => {
    const folder = temporaryFolder();
    const file = writeYaml(
      folder,
      `${HEAD}devices: { d: { connection: plc, points: { a: { holding: 1, order: CDAB }, b: { coil: 1, write: {} } } } }\n`,
    );
    const { code, stdout, stderr } = await runCli(['check', file]);
    expect(code).toBe(0);
    expect(stdout).toBe('OK: 1 connection, 1 device, 2 points (1 writable), 0 tools; writes disabled; 1 warning\n');
    expect(stderr).toMatch(/^warning: .*map\.yaml:3:\d+: devices\.d\.points\.a\.order: CDAB swaps words, and this point has only one\n$/);
  });

  test('a mistaken command line ends with 2 and says what there is', async () => {
    expect(await runCli(['rum', 'x.yaml'])).toMatchObject({ code: 2, stderr: expect.stringContaining('Did you mean run?') });
    expect(await runCli(['run'])).toMatchObject({ code: 2, stderr: expect.stringContaining("missing required argument 'config'") });
    expect(await runCli(['--version'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  });
});

test('the published JSON Schema is the one that the bridge checks by, and explains every key', async () => {
  const { stdout } = await runCli(['schema']);
  const published = readFileSync(new URL('../../config/fieldbridge.schema.json', import.meta.url), 'utf8');
  expect(published).toBe(stdout);
  const missing: string[] = [];
  const walk = (node: unknown, path: string): void => {
    if (typeof node !== 'object' || node === null) return;
    const { properties } = node as { properties?: Record<string, { description?: string; $ref?: string; const?: unknown }> };
    for (const [name, property] of Object.entries(properties ?? {})) {
      if (property.description === undefined && property.$ref === undefined && !path.includes('/if')) missing.push(`${path}.${name}`);
    }
    for (const [key, value] of Object.entries(node)) walk(value, `${path}/${key}`);
  };
  walk(JSON.parse(published), '');
  expect(missing).toEqual([]);
  const grammar = new Ajv2020({ strict: false });
  expect(grammar.validateSchema(JSON.parse(published) as object), JSON.stringify(grammar.errors)).toBe(true);
});

test('every shipped map is sound', () => {
  const { stdout } = spawnSync('ls', [new URL('../../config', import.meta.url).pathname], { encoding: 'utf8' });
  const maps = stdout.split('\n').filter(name => name.endsWith('.yaml'));
  expect(maps.length).toBeGreaterThan(0);
  for (const map of maps) expect(() => readConfig([new URL(`../../config/${map}`, import.meta.url).pathname])).not.toThrow();
});
