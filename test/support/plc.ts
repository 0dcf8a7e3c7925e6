import { onTestFinished } from 'vitest';
import { MemoryUnit, ModbusTcpServer, type Unit } from '../../simulators/modbus-server.ts';

/** A Modbus/TCP server with one unit of memory, or the given units, on any free port, for as long as the test runs. */
export async function startPlc(
  units: ReadonlyMap<number, Unit> | MemoryUnit = new MemoryUnit(),
  options: { readonly delay?: number } = {},
): Promise<ModbusTcpServer> {
  const map = units instanceof MemoryUnit ? new Map([[1, units]]) : units;
  const server = await new ModbusTcpServer(map, options).start();
  onTestFinished(() => server.stop());
  return server;
}
