import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { stringify } from 'yaml';
import { MemoryUnit, ModbusTcpServer } from '../simulators/modbus-server.ts';
import { Bridge } from '../src/bridge.ts';
import { readConfig } from '../src/protocols.ts';

/** A PLC with this many registers that all hold something. */
export async function startPlc(registers: number): Promise<{ server: ModbusTcpServer; unit: MemoryUnit }> {
  const unit = new MemoryUnit().set('holding', 0, ...Array.from({ length: registers }, (_, i) => i));
  return { unit, server: await new ModbusTcpServer(new Map([[1, unit]])).start() };
}

/** A bridge with one device of so many points at one poll interval. */
export function startBridge(port: number, points: number, interval: string): Promise<Bridge> {
  return bridgeOf({
    connections: { plc: { type: 'modbus-tcp', host: '127.0.0.1', port } },
    devices: {
      d: {
        connection: 'plc',
        poll_interval: interval,
        points: Object.fromEntries(Array.from({ length: points }, (_, i) => [`p${i}`, { holding: i }])),
      },
    },
  });
}

/** A bridge with such a map, on any free port, that writes nothing. */
export async function bridgeOf(map: object): Promise<Bridge> {
  const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-bench-'));
  const file = join(folder, 'map.yaml');
  writeFileSync(
    file,
    stringify(
      { bridge: { name: 'bench' }, http: { listen: '127.0.0.1:0', limits: { requests_per_second: 100_000 } }, ...map },
      { aliasDuplicateObjects: false },
    ),
  );
  const config = readConfig([file]);
  rmSync(folder, { recursive: true });
  return await Bridge.create(config, { version: '0', readOnly: true, log: pino({ level: 'silent' }) });
}
