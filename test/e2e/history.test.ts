import { describe, expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { callTool, deviceMap, REVISIONS, readSamples, TestBridge, until } from '../support/bridge.ts';
import { startPlc } from '../support/plc.ts';

interface Series {
  readonly point: string;
  readonly unit?: string;
  readonly interval_ms?: number;
  readonly series: readonly { readonly timestamp: string; readonly value: unknown; readonly quality: string }[];
}

async function open(more: object = {}) {
  const unit = new MemoryUnit().set('holding', 0, 100, 1);
  const plc = await startPlc(unit);
  const points = { level: { holding: 0, unit: '%', deadband: 2 }, mode: { holding: 1, enum: { 0: 'off', 1: 'auto' } } };
  const bridge = await TestBridge.start(deviceMap(plc.port, points, { device: { poll_interval: '20ms', stale_after: '10s' }, ...more }));
  const client = await bridge.client();
  await until(
    () => readSamples(client, ['d.*']),
    samples => samples.every(sample => sample.quality === 'good'),
  );
  const history = async (args: object = {}) =>
    (await callTool(client, 'read_history', { point: 'd.level', ...args })).structured as unknown as Series;
  const move = async (value: number) => {
    unit.set('holding', 0, value);
    await until(
      () => readSamples(client, ['d.level']),
      ([sample]) => sample?.value === value,
    );
  };
  return { bridge, client, history, move, plc, unit };
}

describe('read_history', () => {
  test('each change beyond the deadband, with its time; a failure is a time without a value', async () => {
    const { history, move, plc } = await open();
    await move(101);
    await move(110);
    await move(120);
    await plc.stop();
    const { series, ...rest } = await until(
      () => history(),
      ({ series: all }) => all.at(-1)?.quality === 'bad',
    );
    expect(rest).toEqual({ point: 'd.level', unit: '%' });
    expect(series.map(({ value, quality }) => [value, quality])).toEqual([
      [100, 'good'],
      [110, 'good'],
      [120, 'good'],
      [null, 'bad'],
    ]);
    const times = series.map(entry => Date.parse(entry.timestamp));
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(await history({ since: '-1ms' })).toMatchObject({ series: [{ value: null, quality: 'bad' }] });
  });

  test('values for each interval, and text answers in words', async () => {
    const { client, history, move } = await open();
    await move(200);
    const { interval_ms, series } = await history({ since: '-10s', interval: '5s', aggregate: 'max' });
    expect(interval_ms).toBe(5000);
    expect(series.at(-1)).toMatchObject({ value: 200, quality: 'good' });
    expect((await history({ interval: '10m' })).series).toMatchObject([{ quality: 'good' }]);
    const { text } = await callTool(client, 'read_history', { point: 'd.level' });
    expect(text).toMatch(/^d\.level: 2 entries from .* to .*; lowest 100 %, highest 200 %\.$/);
    expect(
      ((await callTool(client, 'read_history', { point: 'd.mode', interval: '10m' })).structured as unknown as Series).series,
    ).toMatchObject([{ value: 'auto', quality: 'good' }]);
  });

  test.each([
    [{ point: 'd.levl' }, 'There is no point "d.levl"; near it: d.level.'],
    [{ point: 'd.*' }, 'point: one point is expected'],
    [{ since: 'yesterday' }, 'since: a time such as 2026-01-31T08:00:00Z or -15m is expected, got "yesterday"'],
    [{ since: '-1m', until: '-2m' }, 'since: expected a time before until'],
    [{ aggregate: 'avg' }, 'interval: avg needs the length of an interval'],
    [{ interval: '1m', aggregate: 'raw' }, 'interval: raw values have none'],
    [{ interval: 'soon' }, 'interval: a duration such as 10s or 5m is expected'],
    [{ interval: '1ms', since: '-10m' }, 'interval: at most 1000 intervals'],
    [{ point: 'd.mode', interval: '1m', aggregate: 'avg' }, 'd.mode is no number, so only raw and last are expected'],
    [{ aggregate: 'median' }, 'aggregate: one of raw, avg, min, max, last is expected, got "median"'],
  ])('%j is refused with what would be accepted', async (args, message) => {
    const { client } = await open();
    const { isError, text } = await callTool(client, 'read_history', { point: 'd.level', ...args });
    expect(isError).toBe(true);
    expect(text).toContain(message);
  });

  test.each(REVISIONS)('is listed to clients of %s, and not where the map turns it off', async revision => {
    const { bridge } = await open();
    const names = async (of: TestBridge) => (await (await of.client(revision)).listTools()).tools.map(tool => tool.name);
    expect(await names(bridge)).toContain('read_history');
    const off = await open({ history: 0 });
    expect(await names(off.bridge)).not.toContain('read_history');
  });
});
