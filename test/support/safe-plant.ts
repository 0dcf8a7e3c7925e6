import { existsSync, readFileSync } from 'node:fs';
import type { Client } from '@modelcontextprotocol/client';
import { MemoryUnit, type ModbusTcpServer } from '../../simulators/modbus-server.ts';
import { deviceMap, goodOnes, TestBridge } from './bridge.ts';
import { startPlc } from './plc.ts';

export interface SafePlant {
  readonly unit: MemoryUnit;
  readonly plc: ModbusTcpServer;
  readonly bridge: TestBridge;
  readonly client: Client;
  /** Requests that write, as hexadecimal PDUs, in their order. */
  written(): string[];
  audit(): Record<string, unknown>[];
}

/** A bridge that may write to a PLC of holding registers 0 to 9 and coils 0 to 9, all of them 0 at first. */
export async function safePlant(
  points: object,
  safety: object = {},
  { token, ...more }: { readonly token?: string; readonly [key: string]: unknown } = {},
): Promise<SafePlant> {
  const zeros = Array.from({ length: 10 }, () => 0);
  const unit = new MemoryUnit().set('holding', 0, ...zeros).set('coil', 0, ...zeros);
  const plc = await startPlc(unit);
  plc.keepRequests = 100_000;
  const bridge = await TestBridge.start(deviceMap(plc.port, points, { safety: { writes: 'enabled', ...safety }, ...more }));
  const client = await bridge.client('2026-07-28', token);
  await goodOnes(client, ['d.*']);
  return {
    unit,
    plc,
    bridge,
    client,
    written: () => plc.requests.filter(({ pdu }) => pdu.readUInt8(0) > 4).map(({ pdu }) => pdu.toString('hex')),
    audit: () => recordsIn(bridge.auditFile),
  };
}

export const recordsIn = (file: string): Record<string, unknown>[] =>
  existsSync(file)
    ? readFileSync(file, 'utf8')
        .trimEnd()
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line) as Record<string, unknown>)
    : [];
