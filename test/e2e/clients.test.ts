import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import {
  callTool,
  clientOptions,
  REVISIONS,
  type Revision,
  readSamples,
  TestBridge,
  temporaryFolder,
  until,
  writeYaml,
} from '../support/bridge.ts';
import { MAIN } from '../support/cli.ts';
import { needsSystem } from '../support/system.ts';

const POLL = 500;

/** The oldest has a transport of its own over HTTP, which is deprecated and not served; --attach passes on what HTTP serves. */
const SERVED = { http: REVISIONS, stdio: ['2024-11-05', ...REVISIONS], attach: ['2024-11-05', '2025-06-18', '2026-07-28'] } as const;

/** A client of one revision, on one transport, to a bridge with the shipped map. */
async function connect(transport: 'http' | 'stdio' | 'attach', revision: Revision, port: number): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, clientOptions(revision));
  if (transport === 'http') {
    const bridge = await TestBridge.start(overlay(port), { files: [BOILER_HOUSE_MAP] });
    await client.connect(new StreamableHTTPClientTransport(new URL(bridge.endpoint)));
  } else if (transport === 'attach') {
    const bridge = await TestBridge.start(overlay(port), { files: [BOILER_HOUSE_MAP] });
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [MAIN, 'stdio', '--attach', bridge.endpoint], stderr: 'ignore' }),
    );
  } else {
    const folder = temporaryFolder();
    const over = writeYaml(folder, { ...overlay(port), safety: { audit: join(folder, 'audit.jsonl') } });
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [MAIN, 'stdio', BOILER_HOUSE_MAP, over], stderr: 'ignore' }),
    );
  }
  onTestFinished(() => client.close());
  return client;
}

/** The coil as somebody else sees it. */
async function coilByMbpoll(port: number, reference: number): Promise<boolean> {
  const args = ['-m', 'tcp', '-p', String(port), '-a', '1', '-t', '0', '-0', '-r', String(reference), '-c', '1', '-1', '-q', '127.0.0.1'];
  const { stdout } = await promisify(execFile)('mbpoll', args);
  const match = /\[\d+\]:\s+(\d)/.exec(stdout);
  if (match === null) throw new Error(`mbpoll said: ${stdout}`);
  return match[1] === '1';
}

describe.each(['http', 'stdio', 'attach'] as const)('over %s', transport => {
  describe.each(SERVED[transport])('a client of %s', revision => {
    test('lists, reads, subscribes and hears an update in time, toggles the valve', async () => {
      const { plant, server } = await startBoilerHouse();
      const client = await connect(transport, revision, server.port);
      expect(client.getNegotiatedProtocolVersion()).toBe(revision);

      const { tools } = await client.listTools();
      expect(tools.map(tool => tool.name)).toEqual([
        'list_points',
        'read_points',
        'read_history',
        'wait_for',
        'write_point',
        'get_status',
        'read_temperature',
        'toggle_valve',
        'set_setpoint',
        'shut_down',
      ]);
      const { resources } = await client.listResources();
      expect(resources.map(resource => resource.uri)).toContain('plant://boiler/flow_temperature');
      expect(resources.length).toBeGreaterThan(25);
      const { resourceTemplates } = await client.listResourceTemplates();
      expect(resourceTemplates.map(template => template.uriTemplate)).toEqual(['plant://{device}', 'plant://{device}/{point}']);
      const completion = await client.complete({
        ref: { type: 'ref/resource', uri: 'plant://{device}/{point}' },
        argument: { name: 'point', value: 'flow_t' },
        context: { arguments: { device: 'boiler' } },
      });
      expect(completion.completion.values).toEqual(['flow_temperature']);

      const { structured } = await until(
        () => callTool(client, 'read_temperature'),
        answer => JSON.stringify(answer.structured).includes('"good"'),
      );
      expect(structured.samples).toHaveLength(3);

      const uri = 'plant://boiler/outdoor_temperature';
      const setpoint = 'plant://boiler/setpoint';
      let heard: ((uri: string) => void) | undefined;
      client.setNotificationHandler('notifications/resources/updated', notification => heard?.(notification.params.uri));
      if (revision === '2026-07-28') {
        const subscription = await client.listen({ resourceSubscriptions: [setpoint] });
        onTestFinished(() => subscription.close());
      } else {
        await client.subscribeResource({ uri: setpoint });
      }
      // The first polls are news too; they are told within the notify interval.
      await until(
        () => readSamples(client, ['boiler.setpoint']),
        ([sample]) => sample?.quality === 'good',
      );
      await new Promise(resolve => setTimeout(resolve, 200));
      // The best of three: a machine that is busy with something else may be late once, a bridge that is slow always is.
      const delays: number[] = [];
      for (const wanted of [68.5, 70, 71.5]) {
        const news = new Promise<string>(resolve => {
          heard = resolve;
        });
        const changed = performance.now();
        plant.state.setpoint = wanted;
        expect(await news).toBe(setpoint);
        delays.push(performance.now() - changed);
      }
      expect(Math.min(...delays)).toBeLessThan(POLL + 200);
      const { contents } = await client.readResource({ uri: setpoint });
      expect(JSON.parse((contents[0] as { text: string }).text)).toMatchObject({
        point: 'boiler.setpoint',
        value: 71.5,
        unit: '°C',
        quality: 'good',
      });
      expect((await client.readResource({ uri })).contents).toHaveLength(1);

      expect(plant.state.feedValve).toBe(false);
      const toggled = await callTool(client, 'toggle_valve', { reason: 'a test' });
      expect(toggled.structured).toMatchObject({ point: 'boiler.feed_valve', status: 'written', before: false, after: true });
      expect(plant.state.feedValve).toBe(true);
    });
  });
});

test.skipIf(needsSystem('mbpoll'))('the valve that was toggled is open for an independent Modbus client too', async () => {
  const { server } = await startBoilerHouse();
  const client = await connect('http', '2026-07-28', server.port);
  await until(
    () => readSamples(client, ['boiler.feed_valve']),
    ([sample]) => sample?.quality === 'good',
  );
  expect(await coilByMbpoll(server.port, 5)).toBe(false);
  expect((await callTool(client, 'toggle_valve')).structured.status).toBe('written');
  expect(await coilByMbpoll(server.port, 5)).toBe(true);
  expect((await callTool(client, 'toggle_valve', { to: false })).structured.status).toBe('written');
  expect(await coilByMbpoll(server.port, 5)).toBe(false);
});

test('the shipped map has at least 25 points and the four tools that it promises, and all of it is read', async () => {
  const { server } = await startBoilerHouse();
  const client = await connect('http', '2025-11-25', server.port);
  const samples = await until(
    () => readSamples(client, ['boiler.*']),
    all => all.every(sample => sample.reason !== 'initialising'),
  );
  expect(samples.length).toBeGreaterThanOrEqual(25);
  expect(samples.filter(sample => sample.quality !== 'good').map(sample => [sample.point, sample.reason])).toEqual([
    ['boiler.spare_temperature', 'not_available'],
  ]);
  const answer = await callTool(client, 'shut_down', { reason: 'end of the season' });
  expect(answer.structured).toMatchObject({
    status: 'written',
    outcomes: [
      { point: 'boiler.setpoint', status: 'written' },
      { point: 'boiler.pump', status: 'written' },
      { point: 'boiler.feed_valve', status: 'unchanged' },
    ],
  });
  expect(existsSync(BOILER_HOUSE_MAP)).toBe(true);
});

test('a simulator that is killed and started again: bad with no_connection at once, good again by itself', async () => {
  const { server } = await startBoilerHouse();
  const { port } = server;
  const client = await connect('stdio', '2025-11-25', port);
  const read = () => readSamples(client, ['boiler.*']);
  await until(read, samples => samples.filter(sample => sample.quality === 'good').length > 25);
  const killed = performance.now();
  await server.stop();
  const gone = await until(read, samples => samples.every(sample => sample.quality === 'bad'));
  expect(performance.now() - killed).toBeLessThan(1000);
  expect(new Set(gone.map(sample => sample.reason))).toEqual(new Set(['no_connection']));
  expect(gone.every(sample => sample.value === null)).toBe(true);
  await new Promise(resolve => setTimeout(resolve, 700));
  await server.start(port);
  await until(read, samples => samples.filter(sample => sample.quality === 'good').length > 25, 3000);
});
