import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { answer, MemoryUnit, type Unit } from '../../simulators/modbus-server.ts';
import { ModbusRtuServer } from '../../simulators/rtu-server.ts';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import { temporaryFolder, until, writeYaml } from '../support/bridge.ts';
import { ended, runCli, startCli } from '../support/cli.ts';
import { startPlc } from '../support/plc.ts';
import { frame, RawServer, respond } from '../support/raw-server.ts';

const rows = (text: string): string[][] =>
  text
    .trimEnd()
    .split('\n')
    .map(line => line.trim().split(/\s{2,}/));

async function boilerHouse() {
  const { plant, server } = await startBoilerHouse();
  server.keepRequests = 1000;
  const folder = temporaryFolder();
  const audit = join(folder, 'audit.jsonl');
  return {
    plant,
    server,
    audit,
    config: BOILER_HOUSE_MAP,
    more: ['-c', writeYaml(folder, { ...overlay(server.port), safety: { audit } })],
  };
}

describe('decode', () => {
  test('two registers in every type and order', async () => {
    const { code, stdout } = await runCli(['decode', '0x4366', '0x8000']);
    expect(code).toBe(0);
    const table = new Map(rows(stdout).map(([type, ...values]) => [type, values]));
    expect(table.get('float32')?.[0]).toBe('230.5');
    expect(table.get('int32')).toEqual(['1130790912', '-2147466394', '1715667072', '8414787']);
    expect(table.get('bcd32')?.[0]).toBe('43668000');
    expect(table.get('unix_s')?.[0]).toBe('2005-10-31T20:35:12Z');
    expect([...table.keys()]).not.toContain('int16');
  });

  test('one register, scaled, with both of its bytes; four registers', async () => {
    const one = new Map(rows((await runCli(['decode', '6157', '--scale', '0.1'])).stdout).map(([type, ...values]) => [type, values]));
    expect([one.get('uint16'), one.get('uint8 low'), one.get('uint8 high')]).toEqual([['615.7', '335.2'], ['1.3'], ['2.4']]);
    expect((await runCli(['decode', '0x0020', '0', '0', '1'])).stdout).toContain('9007199254740993');
  });

  test('what is no register is refused', async () => {
    for (const word of ['0x10000', '65536', 'ten', '-1'])
      expect(await runCli(['decode', '--', word])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('expected registers as 0 to 65535'),
      });
  });
});

test('plan shows requests, unused registers and load, and opens no connection', async () => {
  const { server, config, more } = await boilerHouse();
  const { code, stdout } = await runCli(['plan', config, ...more.slice(1)]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/boiler {2}1 {5}500 ms {2}input {5}0-22 {7}23 {5}flow_temperature return_temperature/);
  expect(stdout).toMatch(/8 requests, 84 registers and bits, 35 of them unused; about \d+ ms for all of them, \d+\.\d % load/);
  expect(server.connections).toBe(0);
});

test('plan shows what a broker is listened to for', async () => {
  const map = writeYaml(temporaryFolder(), {
    connections: { b: { type: 'mqtt', url: 'mqtt://192.0.2.1' } },
    devices: {
      house: { connection: 'b', points: { air: { topic: 'house/+/air' }, siren: { write: { topic: 'siren' } } } },
      press: { connection: 'b', sparkplug: { group: 'G', edge_node: 'E', device: 'D' }, points: { heat: { metric: 'Process/Heat' } } },
      rest: { connection: 'b', sparkplug: { group: 'G', edge_node: 'E' } },
    },
  });
  const { code, stdout } = await runCli(['plan', map]);
  expect(code).toBe(0);
  expect(rows(stdout.split('\n').slice(1).join('\n'))).toEqual([
    ['device', 'topic', 'point'],
    ['house', 'house/+/air', 'air'],
    ['house', '(only written)', 'siren'],
    ['press', 'Sparkplug / G / E / D: Process/Heat', 'heat'],
    ['rest', 'Sparkplug / G / E', '(whatever its birth certificate brings)'],
  ]);
});

describe('client-config', () => {
  const map = () =>
    writeYaml(temporaryFolder(), {
      connections: { plc: { type: 'modbus-tcp', host: '192.0.2.1' } },
      devices: { d: { connection: 'plc', points: { a: { holding: 1 } } } },
      http: { listen: '127.0.0.1:8600', path: '/plant' },
    });

  test('prints what to paste into each client, with the endpoint and the whole path of the map', async () => {
    const file = map();
    const { code, stdout } = await runCli(['client-config', file]);
    expect(code).toBe(0);
    const said = stdout.match(/^# .*/gm) ?? [];
    for (const name of ['Claude Desktop', 'Claude Code', 'VS Code', 'Cursor', 'Codex', 'Gemini CLI'])
      expect(
        said
          .filter(line => line.startsWith(`# ${name}, over `))
          .map(line => (line.includes('over HTTP') ? 'http' : 'stdio'))
          .sort(),
      ).toEqual(['http', 'stdio']);
    expect(said).toHaveLength(12);
    // A client that starts programs only joins the bridge that runs by one.
    expect(stdout).toContain(`"stdio",\n        "--attach",\n        "http://127.0.0.1:8600/plant"`);
    expect(stdout).toContain('claude mcp add --transport http fieldbridge http://127.0.0.1:8600/plant');
    const { stdout: one } = await runCli(['client-config', file, '--client', 'cursor', '--transport', 'stdio']);
    const { command, args } = (
      JSON.parse(one.slice(one.indexOf('\n'))) as { mcpServers: { fieldbridge: { command: string; args: string[] } } }
    ).mcpServers.fieldbridge;
    // What it prints is a bridge that answers.
    expect([command, ...args.slice(1)]).toEqual([process.execPath, 'stdio', file]);
    const initialize = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const child = spawnSync(command, args, { input: `${JSON.stringify(initialize)}\n`, encoding: 'utf8' });
    expect(child.stdout).toContain('"id":1');
  });

  test('an unknown client is told which there are', async () => {
    expect(await runCli(['client-config', map(), '--client', 'Cursr'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('there are Claude Desktop, Claude Code, VS Code, Cursor, Codex, Gemini CLI — did you mean Cursor?'),
    });
  });
});

describe('read, watch and write', () => {
  test('read asks for these points alone, once, and ends with 1 where one is bad', async () => {
    const { server, config, more } = await boilerHouse();
    const good = await runCli(['read', config, 'boiler.flow_temperature', 'boiler.mode', ...more]);
    expect(good).toMatchObject({ code: 0, stderr: '' });
    expect(rows(good.stdout)).toEqual([
      ['boiler.flow_temperature', expect.stringMatching(/^\d+(\.\d)?$/), '°C', 'good'],
      ['boiler.mode', 'auto', 'good'],
    ]);
    expect(server.requests).toHaveLength(2);
    expect(await runCli(['read', config, 'boiler.spare_temperature', ...more])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('bad: not_available'),
    });
    expect(await runCli(['read', config, 'boiler.presure', ...more])).toMatchObject({
      code: 1,
      stderr: 'fieldbridge: There is no point "boiler.presure"; near it: boiler.pressure.\n',
    });
  });

  test('watch prints a line for each change until it is stopped', async () => {
    const { plant, config, more } = await boilerHouse();
    const child = startCli(['watch', config, 'boiler.setpoint', ...more]);
    const end = ended(child);
    let output = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    await until(
      () => output,
      text => text.includes('boiler.setpoint  65  °C  good'),
    );
    plant.state.setpoint = 66;
    await until(
      () => output,
      text => text.includes('boiler.setpoint  66  °C  good'),
    );
    child.kill('SIGINT');
    expect((await end).code).toBe(0);
  });

  test('write goes through the same gates as any client, and into the audit file', async () => {
    const { plant, config, more, audit } = await boilerHouse();
    expect(await runCli(['write', config, 'boiler.setpoint', '60', '--reason', 'a test', ...more])).toMatchObject({
      code: 0,
      stdout: 'boiler.setpoint: written; was 65 °C, is 60 °C\nwire: 010600460258\n',
    });
    expect(plant.state.setpoint).toBe(60);
    expect(await runCli(['write', config, 'boiler.setpoint', '99', '--reason', 'a test', ...more])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('refused'),
    });
    expect(await runCli(['write', config, 'boiler.setpoint', '50', '--dry-run', '--reason', 'a test', ...more])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('wire: 0106004601f4'),
    });
    expect(await runCli(['write', config, 'boiler.mode', 'off', '--reason', 'a test', ...more])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('may be written by the role engineer'),
    });
    expect(await runCli(['write', config, 'boiler.mode', 'off', '--role', 'engineer', '--reason', 'a test', ...more])).toMatchObject({
      code: 0,
    });
    expect([plant.state.setpoint, plant.state.mode]).toEqual([60, 0]);
    const records = readFileSync(audit, 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as Record<string, unknown>);
    expect(records.map(record => record.kind)).toEqual(['intent', 'outcome', 'refusal', 'refusal', 'intent', 'outcome']);
    expect(records[0]).toMatchObject({ principal: expect.stringMatching(/^cli:\w+$/), why: 'a test' });
    expect((await runCli(['write', config, 'boiler.setpoint', '60', ...more])).stdout).toBe(
      'boiler.setpoint: unchanged; was 60 °C, is 60 °C\n',
    );
  });
});

describe('scan', () => {
  const IDENTITY = [43, 14, 1, 1, 0, 0, 3, 0, 4, ...Buffer.from('ACME'), 1, 3, ...Buffer.from('X\u001b1'), 2, 3, ...Buffer.from('1.0')];
  const memory = () =>
    new MemoryUnit()
      .set('holding', 0, 1, 2, 3)
      .set('holding', 57, 1)
      .set('input', 100, 1, 2)
      .set('coil', 0, ...Array.from({ length: 200 }, () => 1));

  test('finds units, their identity and their addresses, and only reads', async () => {
    const units = new Map<number, Unit>([[2, memory()]]);
    const codes = new Set<number>();
    const server = await RawServer.start(request => {
      codes.add(request.pdu.readUInt8(0));
      const unit = units.get(request.unit);
      if (unit === undefined) return;
      if (request.pdu[0] === 43) request.socket.write(frame(request.transaction, request.unit, IDENTITY));
      else respond(request, answer(unit, request.pdu));
    });
    const { code, stdout } = await runCli([
      'scan',
      '--host',
      '127.0.0.1',
      '--port',
      String(server.address),
      '--units',
      '1-3',
      '--delay',
      '0',
      '--timeout',
      '60',
    ]);
    expect(stdout).toBe(
      'unit 2: ACME, X\\u001b1, 1.0\n  coils: 0-199\n  input registers: 100-101\n  holding registers: 0-2, 57\n1 of 3 unit ids answered\n',
    );
    expect(code).toBe(0);
    expect([...codes].filter(one => one > 4)).toEqual([43]);
  });

  test('on a line behind a converter too, byte by byte', async () => {
    const server = await new ModbusRtuServer(new Map([[7, memory()]])).start();
    onTestFinished(() => server.stop());
    const { stdout } = await runCli([
      'scan',
      '--rtu',
      '--host',
      '127.0.0.1',
      '--port',
      String(server.port),
      '--units',
      '6,7',
      '--tables',
      'holding',
      '--addresses',
      '0-63',
      '--delay',
      '0',
      '--timeout',
      '60',
    ]);
    expect(stdout).toBe('unit 7\n  holding registers: 0-2, 57\n1 of 2 unit ids answered\n');
  });

  test('keeps silence between requests, and says what is wrong with what was asked', async () => {
    const plc = await startPlc(memory());
    plc.keepRequests = 1000;
    const started = performance.now();
    await runCli([
      'scan',
      '--host',
      '127.0.0.1',
      '--port',
      String(plc.port),
      '--units',
      '1',
      '--tables',
      'holding',
      '--addresses',
      '0-9',
      '--delay',
      '60',
      '--timeout',
      '100',
    ]);
    expect(performance.now() - started).toBeGreaterThan((plc.requests.length - 1) * 60);
    expect(plc.requests.length).toBeGreaterThan(5);
    expect(await runCli(['scan'])).toMatchObject({ code: 1, stderr: expect.stringContaining('either --host, or --path') });
    expect(await runCli(['scan', '--host', 'x', '--units', '1-300'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('unit ids from 0 to 255'),
    });
    expect(await runCli(['scan', '--path', '/dev/no-such-device', '--units', '1'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('/dev/no-such-device: there is no such device; is the adapter plugged in?'),
    });
  });
});
