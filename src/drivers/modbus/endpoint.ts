import type { RawMap } from '../../model/protocol.ts';

const USUAL_PORT = 502;
const SECURE_PORT = 802;

/** What a connection talks to, so that no two talk to the same. */
export function endpointOf(type: string, raw: RawMap): string {
  if (type === 'modbus-rtu') return String(raw.path);
  const { host, port } = hostAndPort(raw);
  const canonical = host === 'localhost' ? '127.0.0.1' : host.toLowerCase();
  return type === 'modbus-udp' ? `${canonical}:${port}/udp` : `${canonical}:${port}`;
}

/** A host with its port, that of the protocol where none is given. */
export function hostAndPort(raw: RawMap): { host: string; port: number } {
  return { host: String(raw.host), port: Number(raw.port ?? (raw.tls === undefined ? USUAL_PORT : SECURE_PORT)) };
}
