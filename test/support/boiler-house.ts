import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { BoilerHouse, BoilerHousePlc, PlantClock } from '../../simulators/boiler-house.ts';
import { ModbusTcpServer } from '../../simulators/modbus-server.ts';

export const BOILER_HOUSE_MAP = fileURLToPath(new URL('../../config/boiler-house.yaml', import.meta.url));

/** The simulated boiler house on any free port, in real time, for as long as the test runs. */
export async function startBoilerHouse(): Promise<{ plant: BoilerHouse; server: ModbusTcpServer }> {
  const plant = new BoilerHouse();
  const server = await new ModbusTcpServer(new Map([[1, new BoilerHousePlc(plant)]])).start();
  const clock = new PlantClock(plant);
  clock.start();
  onTestFinished(async () => {
    clock.stop();
    await server.stop();
  });
  return { plant, server };
}

/** What a test lays over the shipped map: another port, and an audit file of its own. */
export const overlay = (port: number): object => ({ connections: { plc: { port, reconnect: { initial: '50ms', max: '300ms' } } } });
