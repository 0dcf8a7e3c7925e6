import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { Greenhouse, GreenhouseDevices } from '../../simulators/greenhouse.ts';
import { callTool, readSamples, TestBridge, until } from '../support/bridge.ts';
import { Mosquitto } from '../support/mosquitto.ts';
import { needsSystem } from '../support/system.ts';

const MAP = fileURLToPath(new URL('../../config/greenhouse.yaml', import.meta.url));

test('an open window cools the house, a lamp warms it', () => {
  const [open, shut] = [new Greenhouse(), new Greenhouse()];
  open.windowTarget = 100;
  shut.windowTarget = 0;
  shut.lamp = true;
  for (let i = 0; i < 600; i++) for (const house of [open, shut]) house.advance(1);
  expect(open.window).toBe(100);
  expect(open.air).toBeLessThan(15);
  expect(shut.air).toBeGreaterThan(26);
  expect(open.humidity).toBeLessThan(shut.humidity);
});

test.skipIf(needsSystem('mosquitto'))('the shipped map reads it, moves its window and its lamp, and publishes it once more', async () => {
  const broker = await Mosquitto.start();
  const devices = await GreenhouseDevices.start(new Greenhouse(), broker.url, 50);
  onTestFinished(() => devices.stop());
  const overlay = {
    connections: { broker: { url: broker.url } },
    bridge: { name: 'greenhouse' },
    publish: { store: 'off' },
    safety: { writes: 'enabled' },
  };
  const client = await (await TestBridge.start(overlay, { files: [MAP] })).client();
  const read = () => readSamples(client, ['*']);
  const samples = await until(read, all => all.every(sample => sample.quality === 'good'));
  expect(samples.map(({ point, unit }) => [point, unit])).toEqual([
    ['climate.air_temperature', '°C'],
    ['climate.humidity', '%'],
    ['soil.moisture', '%'],
    ['soil.temperature', '°C'],
    ['window.position', '%'],
    ['lamp.state', undefined],
  ]);
  expect(samples[2]?.value).toBeCloseTo(31.5, 0);
  expect((await callTool(client, 'set_window', { value: 45, reason: 'too warm' })).structured).toMatchObject({
    status: 'written',
    after: 45,
  });
  expect((await callTool(client, 'switch_lamp', { to: true })).structured).toMatchObject({ status: 'written', before: false, after: true });
  expect(devices.plant).toMatchObject({ windowTarget: 45, lamp: true });

  const other = await broker.client();
  const heard = new Map<string, unknown>();
  other.on('message', (topic, payload) => heard.set(topic, (JSON.parse(payload.toString()) as { value: unknown }).value));
  await other.subscribeAsync('site/#');
  await until(
    () => heard,
    all => all.get('site/greenhouse-3/lamp/state') === true && all.get('site/greenhouse-3/window/position') === 45,
  );
  expect(heard.size).toBe(6);
  await devices.stop();
  await until(read, ([air, , soil]) => air?.reason === 'offline' && soil?.quality === 'good');
});
