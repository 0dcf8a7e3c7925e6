import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { BoilerHouse, BoilerHousePlc, PlantClock } from '../../simulators/boiler-house.ts';
import { answer } from '../../simulators/modbus-server.ts';
import { startBoilerHouse } from '../support/boiler-house.ts';
import { temporaryFolder } from '../support/bridge.ts';
import { needsSystem } from '../support/system.ts';

afterEach(() => {
  vi.useRealTimers();
});

describe('the boiler house obeys physics', () => {
  test('a higher setpoint warms the water, a lower one lets it cool', () => {
    const plant = new BoilerHouse();
    plant.state.setpoint = 80;
    plant.advance(1800);
    const warm = plant.state.flow;
    expect(warm).toBeGreaterThan(74);
    expect(warm).toBeLessThan(90);
    plant.state.setpoint = 40;
    plant.advance(3600);
    expect(plant.state.flow).toBeLessThan(warm - 10);
  });

  test('without its gas valve the burner is off, and the temperatures approach each other', () => {
    const plant = new BoilerHouse();
    plant.state.gasValve = false;
    plant.advance(7200);
    expect(plant.state.burnerOn).toBe(false);
    expect(Math.abs(plant.state.flow - plant.state.tank)).toBeLessThan(1);
  });

  test('the feed valve fills the tank with cold water; without it the level falls until low water stops the burner', () => {
    const plant = new BoilerHouse();
    const { tank, level } = plant.state;
    plant.state.feedValve = true;
    plant.advance(120);
    expect(plant.state.level).toBeGreaterThan(level + 5);
    expect(plant.state.tank).toBeLessThan(tank);
    plant.state.feedValve = false;
    plant.advance(8 * 3600);
    expect(plant.state.level).toBeLessThan(15);
    expect(plant.state.burnerOn).toBe(false);
    expect(plant.alarms & 2).toBe(2);
  });

  test('counters only count up, temperatures stay those of water, for a day of any handling', () => {
    const plant = new BoilerHouse();
    let before = { ...plant.state };
    for (let minute = 0; minute < 24 * 60; minute++) {
      if (minute % 97 === 0) plant.state.pumpOn = !plant.state.pumpOn;
      if (minute % 61 === 0) plant.state.feedValve = !plant.state.feedValve;
      if (minute % 131 === 0) plant.state.mode = (plant.state.mode + 1) % 3;
      plant.advance(60);
      for (const temperature of [plant.state.flow, plant.state.back, plant.state.tank])
        expect(temperature > 0 && temperature < 110).toBe(true);
      for (const counter of ['gasM3', 'heatWh', 'burnerHours', 'starts'] as const)
        expect(plant.state[counter]).toBeGreaterThanOrEqual(before[counter]);
      before = { ...plant.state };
    }
  });

  test('time passes by its timer alone, so that a fake one drives it', () => {
    vi.useFakeTimers();
    const plant = new BoilerHouse();
    const clock = new PlantClock(plant, 10);
    clock.start();
    vi.advanceTimersByTime(60_000);
    clock.stop();
    expect(plant.state.time).toBeCloseTo(600, 0);
    vi.advanceTimersByTime(60_000);
    expect(plant.state.time).toBeCloseTo(600, 0);
  });
});

describe('its PLC answers as the specification says', () => {
  const ask = (...bytes: number[]): string => answer(new BoilerHousePlc(new BoilerHouse()), Buffer.from(bytes)).toString('hex');

  test.each([
    ['coils', [1, 0, 5, 0, 4], '010106'],
    ['a setting', [3, 0, 70, 0, 1], '0302028a'],
    ['an address that is not there', [3, 0, 30, 0, 1], '8302'],
    ['a quantity of 0', [3, 0, 70, 0, 0], '8303'],
    ['a quantity of 126', [3, 0, 0, 0, 126], '8303'],
    ['past the last address', [3, 0xff, 0xff, 0, 2], '8302'],
    ['a function that is not known', [7], '8701'],
    ['a request cut short', [3, 0, 70], '8303'],
    ['a coil neither on nor off', [5, 0, 5, 1, 0], '8503'],
    ['a setting out of its range', [6, 0, 70, 0x27, 0x10], '8603'],
    ['a setting that is written', [6, 0, 70, 2, 0x58], '0600460258'],
    ['a quantity and bytes that differ', [16, 0, 70, 0, 1, 4, 0, 0, 0, 0], '9003'],
  ] as const)('%s', (_, request, reply) => {
    expect(ask(...request)).toBe(reply);
  });
});

const mbpoll = async (port: number, ...args: string[]): Promise<string> =>
  (
    await promisify(execFile)('mbpoll', [
      '-m',
      'tcp',
      '-p',
      String(port),
      '-a',
      '1',
      '-0',
      '-1',
      '-q',
      ...args.slice(0, -1),
      '127.0.0.1',
      ...(args.at(-1) === '' ? [] : [args.at(-1) ?? '']),
    ])
  ).stdout;

test.skipIf(needsSystem('mbpoll'))('mbpoll reads and writes it', async () => {
  const { plant, server } = await startBoilerHouse();
  expect(await mbpoll(server.port, '-t', '4', '-r', '70', '-c', '1', '')).toMatch(/\[70\]:\s+650/);
  expect(await mbpoll(server.port, '-t', '3', '-r', '0', '-c', '4', '')).toMatch(/\[1\]:\s+5\d\d/);
  await mbpoll(server.port, '-t', '4', '-r', '70', '600');
  expect(plant.state.setpoint).toBe(60);
  await mbpoll(server.port, '-t', '0', '-r', '5', '1');
  expect(plant.state.feedValve).toBe(true);
});

test.skipIf(needsSystem('cc'))('a client of libmodbus reads, writes, and is told no', async () => {
  const { plant, server } = await startBoilerHouse();
  const program = join(temporaryFolder(), 'client');
  execFileSync('cc', ['-o', program, new URL('./libmodbus-client.c', import.meta.url).pathname, '-lmodbus']);
  const { stdout } = await promisify(execFile)(program, [String(server.port)]);
  expect(stdout).toBe('registers 3: 650 1 70\nwrite single: 1\nwrite multiple: 2\nmask: 1\ncoil: 1\nmissing: Illegal data address\n');
  expect([plant.state.setpoint, plant.state.mode, plant.state.pumpSpeed, plant.state.feedValve]).toEqual([62, 0, 56, true]);
});
