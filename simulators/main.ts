import { BoilerHouse, BoilerHousePlc, PlantClock } from './boiler-house.ts';
import { Greenhouse, GreenhouseDevices } from './greenhouse.ts';
import { ModbusTcpServer } from './modbus-server.ts';

/**
 * `npm run simulator [-- PORT [SPEED]]`: the boiler house alone, until it is stopped.
 * `npm run simulator -- greenhouse [URL]`: the greenhouse, at a broker that is there already.
 */
const USAGE = 'usage: npm run simulator [-- PORT [SPEED]], or npm run simulator -- greenhouse [URL]\n';

function give(text: string, code: number): never {
  process.stderr.write(text);
  process.exit(code);
}

async function boilerHouse(): Promise<() => unknown> {
  const port = Number(process.argv[2] ?? 5020);
  const speed = Number(process.argv[3] ?? 1);
  if (!Number.isInteger(port) || port < 0 || port > 65535 || !(speed > 0)) give(USAGE, 2);
  const plant = new BoilerHouse();
  const clock = new PlantClock(plant, speed);
  const server = new ModbusTcpServer(new Map([[1, new BoilerHousePlc(plant)]]));
  try {
    await server.start(port);
  } catch (error) {
    const inUse = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    give(`the simulator can not listen on 127.0.0.1:${port}: ${inUse ? 'the port is in use' : String(error)}\n`, 1);
  }
  clock.start();
  process.stdout.write(
    `boiler house: Modbus/TCP on 127.0.0.1:${server.port}, unit 1, ${speed} times real time; its map is config/boiler-house.yaml\n`,
  );
  return () => {
    clock.stop();
    return server.stop();
  };
}

async function greenhouse(): Promise<() => unknown> {
  const url = process.argv[3] ?? 'mqtt://127.0.0.1:1883';
  if (!/^(mqtts?|wss?):\/\/[^/\s]+/.test(url)) give(USAGE, 2);
  const devices = await GreenhouseDevices.start(new Greenhouse(), url).catch((error: unknown) =>
    give(
      `the simulator finds no broker at ${url}: ${error instanceof Error ? error.message || String((error as NodeJS.ErrnoException).code) : String(error)}\n`,
      1,
    ),
  );
  process.stdout.write(`greenhouse: its devices speak at ${url}; its map is config/greenhouse.yaml\n`);
  return () => devices.stop();
}

const stop = await (process.argv[2] === 'greenhouse' ? greenhouse() : boilerHouse());
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stop());
