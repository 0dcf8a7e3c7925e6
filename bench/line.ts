import { FaultyWire } from '../simulators/faulty-wire.ts';
import { MemoryUnit, type Unit } from '../simulators/modbus-server.ts';
import { ModbusRtuServer } from '../simulators/rtu-server.ts';
import { bridgeOf } from './plant.ts';

const BAUD = 9600;
const CHARACTER = 11_000 / BAUD;
const UNITS = 10;
const REGISTERS = 50;
const SETTLE = 6;
const SECONDS = 20;
const TIMEOUT = 500;

/** Milliseconds of one request by the formulas of MODBUS over Serial Line V1.02: bytes both ways, and two silences. */
const FORMULA = (8 + 5) * CHARACTER + 2 * Math.max(3.5 * CHARACTER, 1.75) + REGISTERS * 2 * CHARACTER;

/** Ten units of 50 registers on a 9600-baud line, asked for as often as it goes: the rate beside what the line allows. */
export async function line(): Promise<void> {
  const possible = 1000 / FORMULA;
  const all = await rateOf(UNITS);
  process.stdout.write(
    `${UNITS} units × ${REGISTERS} registers at ${BAUD} baud: ${all.total.toFixed(2)} requests/s of ${possible.toFixed(2)} that the line allows, ratio ${(all.total / possible).toFixed(3)}\n`,
  );
  const fair = Math.min(...all.each) / Math.max(...all.each);
  process.stdout.write(`slowest unit beside the fastest: ${fair.toFixed(2)}\n`);
  const dead = await rateOf(UNITS - 1);
  const before = all.total / UNITS;
  const after = dead.total / (UNITS - 1);
  process.stdout.write(
    `one of them dead: the others ${after.toFixed(3)} requests/s each, before ${before.toFixed(3)}, ratio ${(after / before).toFixed(3)}\n`,
  );
}

/** @returns requests a second of all units that live, and of each */
async function rateOf(living: number): Promise<{ total: number; each: number[] }> {
  const units = new Map<number, Unit>(
    Array.from({ length: living }, (_, i) => [
      i + 1,
      new MemoryUnit().set('holding', 0, ...Array.from({ length: REGISTERS }, (__, j) => j)),
    ]),
  );
  const server = await new ModbusRtuServer(units).start();
  const wire = await new FaultyWire(server.port, { character: CHARACTER }).start();
  const points = Object.fromEntries(Array.from({ length: REGISTERS }, (_, i) => [`p${i}`, { holding: i }]));
  const devices = Object.fromEntries(
    Array.from({ length: UNITS }, (_, i) => [`u${i + 1}`, { connection: 'line', unit_id: i + 1, poll_interval: '100ms', points }]),
  );
  const bridge = await bridgeOf({
    connections: { line: { type: 'modbus-rtu-over-tcp', host: '127.0.0.1', port: wire.port, timeout: `${TIMEOUT}ms`, retries: 1 } },
    devices,
  });
  bridge.start();
  await new Promise(resolve => setTimeout(resolve, SETTLE * 1000));
  const from = server.requests.length;
  await new Promise(resolve => setTimeout(resolve, SECONDS * 1000));
  const seen = server.requests.slice(from).filter(request => units.has(request.unit));
  await bridge.stop();
  await wire.stop();
  await server.stop();
  const each = [...units.keys()].map(unit => seen.filter(request => request.unit === unit).length / SECONDS);
  return { total: seen.length / SECONDS, each };
}
