import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { callTool, readSamples, TestBridge, temporaryFolder, until, writePoint, writeYaml } from '../support/bridge.ts';
import { certificates } from '../support/certificates.ts';
import { runCli, startCli } from '../support/cli.ts';
import { freePort } from '../support/free-port.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { needsFile, needsSystem } from '../support/system.ts';

const skip = needsSystem('mosquitto') || needsSystem('mosquitto_pub') || needsSystem('openssl');

/** Debian's mosquitto has it, and it alone refuses subscriptions. */
const DYNAMIC_SECURITY = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/mosquitto_dynamic_security.so`;

const LAMP = { topic: 'lamp/state', type: 'bool', on: 'ON', off: 'OFF', write: { topic: 'lamp/set', verify: '2s' } };

async function open(connection: object, points: object = { p: { topic: 't' }, lamp: LAMP }) {
  const client = await (
    await TestBridge.start({
      connections: { broker: { type: 'mqtt', timeout: '1s', reconnect: { initial: '100ms', max: '500ms' }, ...connection } },
      devices: { d: { connection: 'broker', points } },
      safety: { writes: 'enabled' },
    })
  ).client();
  const status = async () =>
    ((await callTool(client, 'get_status')).structured.connections as Record<string, unknown>[])[0] as {
      state: string;
      last_error?: string;
      connects: number;
      messages: Record<string, number>;
    };
  return { client, status, read: async (point: string) => (await readSamples(client, [point]))[0] };
}

const connected = (status: () => Promise<{ state: string }>) => until(status, ({ state }) => state === 'connected');

/** One message from the command line of the broker's own project. */
function publish(broker: Mosquitto, args: readonly string[], port = broker.port): void {
  const { status, stderr } = spawnSync('mosquitto_pub', ['-h', '127.0.0.1', '-p', String(port), ...args], { encoding: 'utf8' });
  // It sometimes ends so although its message was taken; whether it was, what is looked for afterwards tells.
  if (status !== 0 && !stderr.includes('Unknown error')) throw new Error(stderr);
}

/** What mosquitto_sub prints, line by line. */
function listen(broker: Mosquitto, args: readonly string[]): string[] {
  const lines: string[] = [];
  const child = spawn('mosquitto_sub', ['-h', '127.0.0.1', '-p', String(broker.port), ...args]);
  child.stdout.on('data', (chunk: Buffer) => lines.push(...chunk.toString().split('\n').filter(Boolean)));
  onTestFinished(() => void child.kill('SIGKILL'));
  return lines;
}

describe.skipIf(skip)('Eclipse Mosquitto and its own clients', () => {
  test.each([4, 5])('plain, protocol version %i: mosquitto_pub is heard, mosquitto_sub hears the command', async protocol_version => {
    const broker = await Mosquitto.start();
    const { client, status, read } = await open({ url: broker.url, protocol_version });
    await connected(status);
    publish(broker, ['-t', 't', '-m', '21.5']);
    expect(
      await until(
        () => read('d.p'),
        sample => sample?.quality === 'good',
      ),
    ).toMatchObject({ value: 21.5 });
    publish(broker, ['-t', 'lamp/state', '-m', 'OFF', '-r']);
    await until(
      () => read('d.lamp'),
      sample => sample?.quality === 'good',
    );
    const heard = listen(broker, ['-t', 'lamp/set', '-F', '%r %q %p']);
    await until(
      () => broker.log,
      text => /lamp\/set/.test(text),
    );
    const outcome = writePoint(client, 'd.lamp', true);
    await until(
      () => heard,
      lines => lines.length > 0,
    );
    publish(broker, ['-t', 'lamp/state', '-m', 'ON', '-r']);
    expect(await outcome).toMatchObject({ status: 'written', before: false, after: true });
    expect(heard).toEqual(['0 0 ON']);
  });

  test('password and access list: what the broker forbids is told, and the rest works', async () => {
    const broker = await Mosquitto.start(
      folder => ['allow_anonymous false', `password_file ${folder}/passwords`, `acl_file ${folder}/acl`],
      folder => {
        spawnSync('mosquitto_passwd', ['-b', '-c', join(folder, 'passwords'), 'bridge', 's3cret']);
        spawnSync('mosquitto_passwd', ['-b', join(folder, 'passwords'), 'plc', 's3cret']);
        writeFileSync(join(folder, 'acl'), 'user bridge\ntopic read t\nuser plc\ntopic readwrite #\n', { mode: 0o600 });
      },
    );
    const points = { p: { topic: 't' }, out: { type: 'float64', write: { topic: 'set' } } };
    const { client, status, read } = await open({ url: broker.url, username: 'bridge', password: 's3cret' }, points);
    await connected(status);
    publish(broker, ['-u', 'plc', '-P', 's3cret', '-t', 't', '-m', '5']);
    expect(
      await until(
        () => read('d.p'),
        sample => sample?.quality === 'good',
      ),
    ).toMatchObject({ value: 5 });
    expect(await writePoint(client, 'd.out', 1)).toMatchObject({
      status: 'failed',
      reason: expect.stringMatching(/the broker refused the message: .*authorized/i),
    });
  });

  test.skipIf(needsFile(DYNAMIC_SECURITY))('a subscription that is refused: told, the point is bad, and the rest works', async () => {
    const rules = {
      defaultACLAccess: { publishClientSend: true, publishClientReceive: true, subscribe: false, unsubscribe: true },
      anonymousGroup: 'all',
      groups: [{ groupname: 'all', roles: [{ rolename: 'some' }] }],
      roles: [{ rolename: 'some', acls: [{ acltype: 'subscribeLiteral', topic: 't', priority: 0, allow: true }] }],
    };
    const broker = await Mosquitto.start(
      folder => ['allow_anonymous true', `plugin ${DYNAMIC_SECURITY}`, `plugin_opt_config_file ${folder}/rules.json`],
      folder => writeFileSync(join(folder, 'rules.json'), JSON.stringify(rules)),
    );
    // The wide filter stands for the narrow one until it is refused.
    const { status, read } = await open({ url: broker.url }, { wide: { topic: '#' }, p: { topic: 't' } });
    await connected(status);
    expect(await until(status, one => one.last_error !== undefined)).toMatchObject({
      last_error: 'the broker refuses to let the bridge subscribe to #',
    });
    publish(broker, ['-t', 't', '-m', '7']);
    expect(
      await until(
        () => read('d.p'),
        sample => sample?.quality === 'good',
      ),
    ).toMatchObject({ value: 7 });
  });

  test('TLS with client certificates: without one there is no session, and why is told', async () => {
    const broker = await Mosquitto.start(
      folder => [
        'allow_anonymous true',
        `cafile ${folder}/ca.pem`,
        `certfile ${folder}/device.pem`,
        `keyfile ${folder}/device.key`,
        'require_certificate true',
      ],
      certificates,
    );
    const file = (name: string) => join(broker.folder, name);
    const tls = { ca: file('ca.pem'), cert: file('bridge.pem'), key: { file: file('bridge.key') }, server_name: 'device.example' };
    const url = `mqtts://127.0.0.1:${broker.port}`;
    const { status, read } = await open({ url, tls });
    await connected(status);
    publish(broker, [
      ...['--cafile', file('ca.pem'), '--cert', file('bridge.pem'), '--key', file('bridge.key'), '--insecure'],
      ...['-t', 't', '-m', '7'],
    ]);
    expect(
      await until(
        () => read('d.p'),
        sample => sample?.quality === 'good',
      ),
    ).toMatchObject({ value: 7 });

    const without = await open({ url, tls: { ca: file('ca.pem'), server_name: 'device.example' } });
    expect(await until(without.status, one => one.last_error !== undefined && one.state === 'disconnected')).toMatchObject({
      last_error: expect.stringMatching(/certificate|closed/i),
    });
    const strange = await open({ url, tls: { ...tls, server_name: 'other.example' } });
    expect((await until(strange.status, one => one.last_error !== undefined)).last_error).toMatch(/other\.example/);
  });

  test('certificates that are none: told, tried again, and nothing else stops', async () => {
    const broker = await Mosquitto.start();
    writeFileSync(join(broker.folder, 'none.pem'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
    const { status, read } = await open({ url: `mqtts://127.0.0.1:${broker.port}`, tls: { cert: join(broker.folder, 'none.pem') } });
    const { state, last_error } = await until(status, one => one.last_error !== undefined);
    expect(state).toBe('disconnected');
    expect(last_error).toMatch(/PEM|certificate|asn1/i);
    expect(await read('d.p')).toMatchObject({ quality: 'bad', reason: 'no_connection' });
  });

  test.each(['ws', 'wss'])('WebSocket: %s', async scheme => {
    const port = await freePort();
    const broker = await Mosquitto.start(
      folder => [
        ...['allow_anonymous true', `listener ${port}`, 'protocol websockets'],
        ...(scheme === 'wss' ? [`cafile ${folder}/ca.pem`, `certfile ${folder}/device.pem`, `keyfile ${folder}/device.key`] : []),
      ],
      certificates,
    );
    const tls = { ca: join(broker.folder, 'ca.pem'), server_name: 'device.example' };
    const { status, read } = await open({ url: `${scheme}://127.0.0.1:${port}/mqtt`, ...(scheme === 'wss' && { tls }) });
    await connected(status);
    const other = await broker.client();
    await other.publishAsync('t', '9', { qos: 1 });
    expect(
      await until(
        () => read('d.p'),
        sample => sample?.quality === 'good',
      ),
    ).toMatchObject({ value: 9 });
  });

  test.each([4, 5])(
    'a kept session, protocol version %i: what was sent while the bridge was away comes, and is not taken for fresh',
    async version => {
      const broker = await Mosquitto.start();
      const map = (point: object) => ({
        connections: {
          broker: { type: 'mqtt', url: broker.url, client_id: 'kept', clean: false, protocol_version: version, timeout: '1s' },
        },
        devices: { d: { connection: 'broker', points: { p: { topic: 't', ...point } } } },
      });
      const first = await TestBridge.start(map({}));
      await until(
        () => broker.log,
        text => /Sending SUBACK to kept/.test(text),
      );
      await first.stop();
      publish(broker, ['-t', 't', '-m', '1', '-q', '1']);
      publish(broker, ['-t', 't', '-m', '2', '-q', '1']);
      const client = await (await TestBridge.start(map({ stale_after: '60s' }))).client();
      const read = async () => (await readSamples(client, ['d.p']))[0];
      expect(await until(read, sample => sample?.value === 2)).toMatchObject({ quality: 'uncertain', reason: 'stale' });
    },
  );

  test('broker restarted in the middle: good again by itself, and every message is handled once', async () => {
    const broker = await Mosquitto.start();
    const points = { a: { topic: 'h/a' }, plus: { topic: 'h/+' }, all: { topic: 'h/#' } };
    const { status, read } = await open({ url: broker.url }, points);
    await connected(status);
    for (let i = 1; i <= 20; i++) publish(broker, ['-t', 'h/a', '-m', String(i), '-q', '1']);
    await until(
      () => read('d.a'),
      sample => sample?.value === 20,
    );
    broker.kill();
    await until(
      () => read('d.a'),
      sample => sample?.reason === 'no_connection',
    );
    await broker.run();
    await connected(status);
    await until(
      () => broker.log,
      text => /Sending SUBACK/.test(text),
    );
    for (let i = 21; i <= 40; i++) publish(broker, ['-t', 'h/a', '-m', String(i), '-q', '1']);
    for (const point of ['d.a', 'd.plus', 'd.all'])
      await until(
        () => read(point),
        sample => sample?.value === 40,
      );
    expect((await status()).messages).toMatchObject({ received: 40 });
  });

  test.each([4, 5])(
    'broker stopped in order and started again, protocol version %i: taken for what it is, and back in time',
    async version => {
      const broker = await Mosquitto.start();
      const { status } = await open({ url: broker.url, protocol_version: version });
      await connected(status);
      broker.kill('SIGTERM');
      const seen = new Set<string>();
      await until(status, ({ state, last_error }) => {
        if (last_error !== undefined) seen.add(last_error);
        return state === 'disconnected' && /ECONNREFUSED/.test(last_error ?? '');
      });
      expect([...seen].join('\n')).not.toContain('another client');
      await broker.run();
      await until(status, ({ state }) => state === 'connected', 3000);
    },
  );

  test('a daemon that is killed: its will says so; and a command beside a daemon does not take its place', async () => {
    const broker = await Mosquitto.start();
    const folder = temporaryFolder();
    const map = writeYaml(folder, {
      bridge: { name: 'killed' },
      http: { listen: '127.0.0.1:0' },
      connections: { broker: { type: 'mqtt', url: broker.url, client_id: 'daemon', availability: { topic: 'there', offline: 'gone' } } },
      devices: { d: { connection: 'broker', points: { p: { topic: 't' } } } },
    });
    const heard = listen(broker, ['-t', 'there', '-F', '%p']);
    const daemon = startCli(['run', map]);
    await until(
      () => heard,
      lines => lines.includes('online'),
    );
    publish(broker, ['-t', 't', '-m', '5', '-r']);
    expect(await runCli(['read', map, 'd.p'])).toMatchObject({ code: 0, stdout: expect.stringContaining('5') });
    expect(heard).toEqual(['online']);
    expect(broker.log).not.toMatch(/already connected, closing old/);
    daemon.kill('SIGKILL');
    await until(
      () => heard,
      lines => lines.includes('gone'),
    );
  });

  test('another client with the same client id: said clearly, and not fought over', async () => {
    const broker = await Mosquitto.start();
    const { status, read } = await open({ url: broker.url, client_id: 'twin' });
    await connected(status);
    const other = await broker.client({ clientId: 'twin', protocolVersion: 5, reconnectPeriod: 50 });
    let [rounds, isBack] = [0, true];
    other.on('close', () => rounds++);
    other.on('connect', () => (isBack = true));
    const told = await until(status, one => /another client/.test(one.last_error ?? ''));
    expect(told.last_error).toMatch(/another client seems to have taken it over\. It uses the client id twin too; give each its own/);
    expect(await read('d.p')).toMatchObject({ quality: 'bad', reason: 'no_connection' });
    // The pauses double from reconnect.max on: in four seconds there is room for three rounds, not for forty.
    await new Promise(resolve => setTimeout(resolve, 4000));
    expect(rounds).toBeLessThanOrEqual(4);
    expect(isBack).toBe(true);
  });
});
