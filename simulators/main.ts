import { BoilerHouse, BoilerHousePlc, PlantClock } from './boiler-house.ts';
import { ModbusTcpServer } from './modbus-server.ts';

/** `npm run simulator [-- PORT [SPEED]]`: the boiler house alone, until it is stopped. */
const port = Number(process.argv[2] ?? 5020);
const speed = Number(process.argv[3] ?? 1);
if (!Number.isInteger(port) || port < 0 || port > 65535 || !(speed > 0)) {
  process.stderr.write('usage: npm run simulator [-- PORT [SPEED]]\n');
  process.exit(2);
}
const plant = new BoilerHouse();
const clock = new PlantClock(plant, speed);
const server = new ModbusTcpServer(new Map([[1, new BoilerHousePlc(plant)]]));
try {
  await server.start(port);
} catch (error) {
  process.stderr.write(
    `the simulator can not listen on 127.0.0.1:${port}: ${(error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? 'the port is in use' : String(error)}\n`,
  );
  process.exit(1);
}
clock.start();
process.stdout.write(
  `boiler house: Modbus/TCP on 127.0.0.1:${server.port}, unit 1, ${speed} times real time; its map is config/boiler-house.yaml\n`,
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    clock.stop();
    void server.stop();
  });
}
