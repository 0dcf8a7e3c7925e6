import { createSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { answer, MemoryUnit } from '../../simulators/modbus-server.ts';
import { mbapFrame } from '../../src/drivers/modbus/mbap.ts';
import { callTool, deviceMap, readSamples, TestBridge, temporaryFolder, until, writePoint } from '../support/bridge.ts';
import { certificates } from '../support/certificates.ts';
import { startPlc } from '../support/plc.ts';
import { needsSystem } from '../support/system.ts';

const unit = () => new MemoryUnit().set('holding', 0, ...Array.from({ length: 50 }, (_, i) => i));

test('Modbus over UDP: read and written, lost datagrams asked again, strange ones dropped', async () => {
  const memory = unit();
  const server = createSocket('udp4');
  let count = 0;
  server.on('message', (datagram, peer) => {
    // Every fourth read is lost; before every answer comes something that is none.
    if (datagram[7] === 3 && count++ % 4 === 3) return;
    server.send(Buffer.from('noise'), peer.port, peer.address);
    server.send(mbapFrame(datagram.readUInt16BE(0), datagram.readUInt8(6), answer(memory, datagram.subarray(7))), peer.port, peer.address);
  });
  await new Promise<void>(resolve => server.bind(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const map = deviceMap(
    server.address().port,
    { p: { holding: 10, write: {} } },
    { connection: { type: 'modbus-udp', timeout: '100ms' }, safety: { writes: 'enabled' } },
  );
  const client = await (await TestBridge.start(map)).client();
  await until(
    () => readSamples(client, ['d.p']),
    ([sample]) => sample?.value === 10,
  );
  const written = await until(
    () => writePoint(client, 'd.p', 77),
    outcome => outcome.status === 'written' || outcome.status === 'unchanged',
  );
  expect(written.after).toBe(77);
  expect(memory.tables.holding.get(10)).toBe(77);
  const { structured } = await callTool(client, 'get_status');
  expect((structured.connections as { discarded_replies: number }[])[0]?.discarded_replies).toBeGreaterThan(0);
});

test.skipIf(needsSystem('openssl'))('Modbus/TCP Security: certificates of both sides, and without one no connection', async () => {
  const folder = temporaryFolder();
  certificates(folder);
  const plc = await startPlc(unit());
  const file = (name: string) => readFileSync(join(folder, name));
  const server = createTlsServer(
    { ca: file('ca.pem'), cert: file('device.pem'), key: file('device.key'), requestCert: true, rejectUnauthorized: true },
    socket => {
      const inner = connect(plc.port, '127.0.0.1');
      socket.pipe(inner).pipe(socket);
      for (const one of [socket, inner]) one.on('error', () => one.destroy());
    },
  );
  server.on('tlsClientError', () => undefined);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const path = (name: string) => join(folder, name);
  const map = (tls: object) => deviceMap(port, { p: { holding: 10 } }, { connection: { tls, timeout: '1s' } });

  const trusted = await (
    await TestBridge.start(
      map({ ca: path('ca.pem'), cert: path('bridge.pem'), key: { file: path('bridge.key') }, server_name: 'device.example' }),
    )
  ).client();
  await until(
    () => readSamples(trusted, ['d.p']),
    ([sample]) => sample?.value === 10,
  );

  for (const tls of [
    { ca: path('ca.pem'), server_name: 'device.example' },
    { cert: path('bridge.pem'), key: path('bridge.key'), server_name: 'device.example' },
    { ca: path('ca.pem'), cert: path('bridge.pem'), key: path('bridge.key'), server_name: 'other.example' },
  ]) {
    const client = await (await TestBridge.start(map(tls))).client();
    const [sample] = await until(
      () => readSamples(client, ['d.p']),
      ([found]) => found?.reason !== 'initialising',
    );
    expect(sample).toMatchObject({ value: null, reason: 'no_connection' });
  }
});
