import { expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { deviceMap, readSamples, TestBridge, until, writePoint } from '../support/bridge.ts';
import { open, openSession, rpc } from '../support/raw-http.ts';
import { RawServer, respond } from '../support/raw-server.ts';
import { recordsIn, safePlant } from '../support/safe-plant.ts';

const LEVEL = { level: { holding: 0, write: {} } };
const call = (value: number): string =>
  rpc('tools/call', { name: 'write_point', arguments: { point: 'd.level', value, reason: 'test' } }, 7);
const cancel = (): string => JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } });

/** A PLC that answers writes only when it is told to. */
async function slowPlc() {
  const unit = new MemoryUnit().set('holding', 0, 1);
  let isHeld = false;
  const held: (() => void)[] = [];
  let writes = 0;
  const server = await RawServer.start(request => {
    const isWrite = request.pdu.readUInt8(0) === 6;
    if (isWrite) writes++;
    const answer = (): void => {
      if (isWrite) unit.set('holding', 0, request.pdu.readUInt16BE(3));
      respond(request, isWrite ? [...request.pdu] : [3, 2, 0, Number(unit.read('holding', 0))]);
    };
    if (isWrite && isHeld) held.push(answer);
    else answer();
  });
  const hold = (): void => {
    isHeld = true;
  };
  const release = (): void => {
    isHeld = false;
    for (const answer of held.splice(0)) answer();
  };
  return { server, unit, hold, release, waiting: () => held.length, writes: () => writes };
}

async function plant() {
  const plc = await slowPlc();
  const bridge = await TestBridge.start(
    deviceMap(plc.server.address, LEVEL, { safety: { writes: 'enabled' }, connection: { timeout: '2s' } }),
  );
  const client = await bridge.client();
  await until(
    () => readSamples(client, ['d.level']),
    ([sample]) => sample?.quality === 'good',
  );
  const records = () => recordsIn(bridge.auditFile).map(({ kind, status }) => [kind, status]);
  return { ...plc, bridge, client, records };
}

test('a write that is cancelled while it waits for its turn is not sent', async () => {
  const { bridge, client, hold, release, waiting, writes, unit } = await plant();
  hold();
  const first = writePoint(client, 'd.level', 5);
  await until(waiting, count => count === 1);
  const headers = await openSession(bridge.endpoint);
  const second = open(bridge.endpoint, { headers, body: call(9) });
  second.catch(() => undefined);
  await new Promise(resolve => setTimeout(resolve, 100));
  (await open(bridge.endpoint, { headers, body: cancel() })).resume();
  release();
  expect((await first).status).toBe('written');
  await until(
    () => recordsIn(bridge.auditFile).at(-1),
    last => last?.status === 'failed',
  );
  expect(recordsIn(bridge.auditFile).at(-1)).toMatchObject({ kind: 'outcome', requested: 9, reason: 'cancelled before anything was sent' });
  expect([writes(), unit.read('holding', 0)]).toEqual([1, 5]);
});

test.each(['2025-11-25', '2026-07-28'] as const)(
  'one that is cancelled in %s while it is on the wire is finished, verified and recorded',
  async revision => {
    const { bridge, hold, release, waiting, unit, records } = await plant();
    const client = await bridge.client(revision);
    hold();
    const controller = new AbortController();
    const asked = client.callTool(
      { name: 'write_point', arguments: { point: 'd.level', value: 5, reason: 'test' } },
      { signal: controller.signal },
    );
    asked.catch(() => undefined);
    await until(waiting, count => count === 1);
    controller.abort();
    await expect(asked).rejects.toThrow();
    await new Promise(resolve => setTimeout(resolve, 100));
    release();
    await until(records, list => list.length === 2);
    expect(records()).toEqual([
      ['intent', undefined],
      ['outcome', 'written'],
    ]);
    expect(unit.read('holding', 0)).toBe(5);
  },
);

test('a client that vanishes in the middle of a write changes nothing about it', async () => {
  const { bridge, hold, release, waiting, records, writes } = await plant();
  hold();
  const headers = await openSession(bridge.endpoint);
  const gone = await open(bridge.endpoint, { headers, body: call(5) });
  await until(waiting, count => count === 1);
  gone.destroy();
  await new Promise(resolve => setTimeout(resolve, 100));
  release();
  await until(records, list => list.length === 2);
  expect(records()).toEqual([
    ['intent', undefined],
    ['outcome', 'written'],
  ]);
  expect(writes()).toBe(1);
});

test('the end of the bridge lets a write on the wire come to its end', async () => {
  const { bridge, client, hold, release, waiting, records } = await plant();
  hold();
  const asked = writePoint(client, 'd.level', 5);
  asked.catch(() => undefined);
  await until(waiting, count => count === 1);
  const stopped = bridge.stop();
  await new Promise(resolve => setTimeout(resolve, 100));
  release();
  await stopped;
  expect(records()).toEqual([
    ['intent', undefined],
    ['outcome', 'written'],
  ]);
});

test('a hundred writes of ten clients at one point: none is lost, each sees what the one before it did', async () => {
  const { bridge, client, audit, unit } = await safePlant(LEVEL, { max_writes_per_minute: 1000 });
  const clients = await Promise.all(Array.from({ length: 10 }, () => bridge.client()));
  const outcomes = await Promise.all(
    clients.flatMap((one, i) => Array.from({ length: 10 }, (_, n) => writePoint(one, 'd.level', i * 10 + n + 1))),
  );
  expect(outcomes.every(({ status }) => status === 'written')).toBe(true);
  const done = audit().filter(({ kind }) => kind === 'outcome');
  expect(done).toHaveLength(100);
  let before: unknown = 0;
  for (const record of done) {
    expect(record.before).toBe(before);
    before = record.after;
  }
  expect(unit.read('holding', 0)).toBe(before);
  expect((await readSamples(client, ['d.level'], true))[0]?.value).toBe(before);
});
