import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { DgramSocket } from 'node-unix-socket';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { ServiceManager } from '../../src/cli/service-manager.ts';
import { connectTo, deviceMap, readSamples, temporaryFolder, until, writeYaml } from '../support/bridge.ts';
import { type Ended, ended, startCli } from '../support/cli.ts';
import { startPlc } from '../support/plc.ts';

/** A service manager as far as a service sees it: a socket that takes datagrams. */
function manager(folder: string) {
  const path = join(folder, 'notify');
  const socket = new DgramSocket();
  const said: { readonly at: number; readonly state: Readonly<Record<string, string>> }[] = [];
  socket.on('data', (bytes: Buffer) => {
    const entries = bytes
      .toString()
      .split('\n')
      .map(line => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const);
    said.push({ at: performance.now(), state: Object.fromEntries(entries) });
  });
  socket.bind(path);
  onTestFinished(() => socket.close());
  const named = (key: string) => said.filter(({ state }) => key in state);
  return {
    path,
    said,
    named,
    first: (key: string) =>
      until(
        () => named(key),
        list => list.length > 0,
      ),
  };
}

/** `fieldbridge run`, watched. */
async function daemon(map: object, { env = {}, args = [] }: { env?: NodeJS.ProcessEnv; args?: string[] } = {}) {
  const folder = temporaryFolder();
  const file = writeYaml(folder, {
    bridge: { name: 'service' },
    // A test asks again and again until it is so.
    http: { listen: '127.0.0.1:0', limits: { requests_per_second: 1000 } },
    safety: { audit: join(folder, 'audit.jsonl') },
    ...map,
  });
  const notify = manager(folder);
  const child = startCli(['run', file, ...args], { NOTIFY_SOCKET: notify.path, ...env });
  let log = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  const end: Promise<Ended> = ended(child);
  const endpoint = async () =>
    /serving MCP at (http[^"\s]+)/.exec(
      await until(
        () => log,
        text => text.includes('serving MCP at'),
      ),
    )?.[1] ?? '';
  return { folder, file, notify, child, end, endpoint, log: () => log };
}

const points = { p: { holding: 0 } };
/** Where connections are taken, and nothing is answered. */
async function deafPort(): Promise<number> {
  const deaf = createServer(socket => socket.on('error', () => undefined));
  await new Promise<void>(resolve => deaf.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void deaf.close());
  return (deaf.address() as { port: number }).port;
}

const plcWith = (value: number) => startPlc(new MemoryUnit().set('holding', 0, value, value + 1));

describe('a service manager', () => {
  test('hears that the service is ready once it serves and has polled, how it is, that it reloads, and that it stops', async () => {
    const plc = await plcWith(7);
    const { notify, child, end, endpoint, log } = await daemon(deviceMap(plc.port, points), { env: { WATCHDOG_USEC: '600000' } });
    const [ready] = await notify.first('READY');
    expect(ready?.state.STATUS).toMatch(/^1 of 1 points good; 1 connections up; .* 0 sessions, 0 streams; writes disabled$/);
    expect(log()).toContain('serving MCP at');
    await until(
      () => notify.named('WATCHDOG'),
      list => list.length >= 4,
    );
    const client = await connectTo(await endpoint());
    expect((await readSamples(client, ['d.p']))[0]?.value).toBe(7);
    child.kill('SIGHUP');
    await notify.first('RELOADING');
    await until(
      () => notify.named('READY'),
      list => list.length === 2,
    );
    expect(Number(notify.named('RELOADING')[0]?.state.MONOTONIC_USEC)).toBeGreaterThan(0);
    child.kill('SIGTERM');
    expect((await end).code).toBe(0);
    const order = notify.said.flatMap(({ state }) => ['READY', 'RELOADING', 'STOPPING'].filter(key => key in state));
    expect(order).toEqual(['READY', 'RELOADING', 'READY', 'STOPPING']);
  });

  test('is told that the service is ready although a device is dead', async () => {
    const plc = await plcWith(7);
    const port = await deafPort();
    const map = deviceMap(plc.port, points) as { connections: object; devices: object };
    const connections = {
      ...map.connections,
      silent: { type: 'modbus-tcp', host: '127.0.0.1', port, timeout: '200ms' },
      refused: { type: 'modbus-tcp', host: '127.0.0.1', port: 9 },
    };
    const devices = { ...map.devices, e: { connection: 'silent', points }, f: { connection: 'refused', points } };
    const { notify } = await daemon({ connections, devices });
    const [ready] = await notify.first('READY');
    expect(ready?.state.STATUS).toMatch(/^1 of 3 points good; .*refused disconnected/);
  });

  test('gets no sign of life while the event loop stands still', async () => {
    const plc = await plcWith(7);
    const { notify, child } = await daemon(deviceMap(plc.port, points), { env: { WATCHDOG_USEC: '600000' } });
    await notify.first('WATCHDOG');
    child.kill('SIGSTOP');
    await new Promise(resolve => setTimeout(resolve, 300));
    const before = notify.said.length;
    await new Promise(resolve => setTimeout(resolve, 700));
    expect(notify.said.length).toBe(before);
    child.kill('SIGCONT');
    await until(
      () => notify.said.length,
      count => count > before,
    );
  });

  test('is not told what is meant for another process', async () => {
    const plc = await plcWith(7);
    const { notify } = await daemon(deviceMap(plc.port, points), { env: { WATCHDOG_USEC: '300000', WATCHDOG_PID: '1' } });
    await notify.first('READY');
    await new Promise(resolve => setTimeout(resolve, 400));
    expect(notify.named('WATCHDOG')).toEqual([]);
  });
});

test('a service manager gets no sign of life while something that polls hangs, and again when it goes on', async () => {
  const notify = manager(temporaryFolder());
  let stalled = 0;
  const warned: string[] = [];
  const log = { debug: () => undefined, info: () => undefined, warn: (_: object, message: string) => void warned.push(message) };
  const service = { status: () => 'well', stalledFor: () => stalled };
  const told = await ServiceManager.find(service, log, { NOTIFY_SOCKET: notify.path, WATCHDOG_USEC: '150000' });
  onTestFinished(() => told.stopping());
  told.ready();
  await notify.first('WATCHDOG');
  stalled = 200;
  await until(
    () => warned,
    list => list.length > 0,
  );
  const [count, states] = [notify.named('WATCHDOG').length, notify.said.length];
  await until(
    () => notify.said.length,
    now => now >= states + 4,
  );
  expect(notify.named('WATCHDOG').length).toBe(count);
  expect(warned).toEqual(['polling hangs; the service manager gets no more signs of life']);
  stalled = 100;
  await until(
    () => notify.named('WATCHDOG').length,
    now => now > count,
  );
});

describe('a map that changes', () => {
  test('is taken up by SIGHUP; one with mistakes is told of, changes nothing, and the next sound one is taken up', async () => {
    const plc = await plcWith(7);
    const { file, child, endpoint, log, notify } = await daemon(deviceMap(plc.port, points));
    const client = await connectTo(await endpoint());
    await notify.first('READY');
    const whole = readFileSync(file, 'utf8');
    writeFileSync(file, whole.replace('holding: 0', 'holdign: 0'));
    child.kill('SIGHUP');
    await until(log, text => text.includes('the map was not taken up'));
    expect(log()).toMatch(/map\.yaml:\d+:\d+: devices\.d\.points\.p\.holdign: unknown key holdign, did you mean holding\?/);
    expect((await readSamples(client, ['d.p']))[0]?.value).toBe(7);
    writeFileSync(file, whole.replace('holding: 0', 'holding: 1'));
    child.kill('SIGHUP');
    await until(
      () => readSamples(client, ['d.p']),
      ([sample]) => sample?.value === 8,
    );
    expect(plc.connections).toBe(1);
  });

  test('is taken up by itself with --watch, also as a file that it includes changes', async () => {
    const plc = await plcWith(7);
    const { folder, file, endpoint, log, notify } = await daemon(deviceMap(plc.port, points), { args: ['--watch'] });
    await notify.first('READY');
    const client = await connectTo(await endpoint());
    const whole = readFileSync(file, 'utf8');
    writeFileSync(join(folder, 'words'), 'from a file');
    writeFileSync(file, whole.replace('name: service', 'name: service\n  description: { file: words }'));
    await until(log, text => text.includes('the map was taken up'));
    const status = async () =>
      (await client.callTool({ name: 'get_status', arguments: {} })).structuredContent as { bridge: { description?: string } };
    expect((await status()).bridge.description).toBe('from a file');
    writeFileSync(join(folder, 'words'), 'from a file that changed');
    await until(status, ({ bridge }) => bridge.description === 'from a file that changed');
    // A map that was refused is mended in the file that it was wrong in.
    writeFileSync(file, whole.replace('name: service', 'name: service\n  description: { file: more }'));
    await until(log, text => text.includes('the file more can not be read'));
    writeFileSync(join(folder, 'more'), 'from a file that came late');
    await until(status, ({ bridge }) => bridge.description === 'from a file that came late');
    expect(log().match(/the map was taken up/g)?.length).toBeGreaterThanOrEqual(3);
  });

  test('is taken up with --watch also where it changes while the bridge starts', async () => {
    const plc = await plcWith(7);
    // The start waits for the first poll of a device that does not answer.
    const port = await deafPort();
    const map = deviceMap(plc.port, points) as { connections: object; devices: object };
    const slow = { type: 'modbus-tcp', host: '127.0.0.1', port, timeout: '2s' };
    const { file, endpoint, log, notify } = await daemon(
      {
        ...map,
        connections: { ...map.connections, slow },
        devices: { ...map.devices, s: { connection: 'slow', points: { p: { holding: 0 } } } },
      },
      { args: ['--watch'] },
    );
    await endpoint();
    const whole = readFileSync(file, 'utf8');
    writeFileSync(file, whole.replace('name: service', 'name: service\n  description: first'));
    await notify.first('READY');
    expect(log()).not.toContain('the map was taken up');
    const client = await connectTo(await endpoint());
    const description = async () =>
      (await client.callTool({ name: 'get_status', arguments: {} })).structuredContent as { bridge: { description?: string } };
    await until(description, ({ bridge }) => bridge.description === 'first');
    writeFileSync(file, whole.replace('name: service', 'name: service\n  description: second'));
    await until(description, ({ bridge }) => bridge.description === 'second');
  });
});
