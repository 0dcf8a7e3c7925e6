import { connect as dialTcp } from 'node:net';
import { connect as dialTls } from 'node:tls';
import { parseDuration } from '../../model/duration.ts';
import type { RawMap } from '../../model/protocol.ts';
import type { ConnectionSettings } from './connection.ts';
import { hostAndPort } from './endpoint.ts';
import { SerialLine, SocketLine } from './lines.ts';
import { serialCost, TCP_COST } from './planner.ts';
import { RtuPort } from './rtu-port.ts';
import { TcpPort } from './tcp-port.ts';
import { UdpPort } from './udp-port.ts';

const KEEPALIVE_DELAY = 10_000;
/** MODBUS over Serial Line V1.02, 2.5.1.1: above 19,200 baud the silence stays what it is. */
const FIXED_SILENCE_ABOVE = 19_200;
const FIXED_SILENCE = 1.75;

type Transport = Pick<ConnectionSettings, 'peer' | 'newPort' | 'cost'>;

/** How a connection of this type is made, from its checked entry in the map. */
export function transportOf(type: string, raw: RawMap): Transport {
  const timeout = parseDuration(raw.timeout) ?? 1000;
  switch (type) {
    case 'modbus-rtu':
      return serial(raw, timeout);
    case 'modbus-rtu-over-tcp':
      return overTcp(raw, timeout);
    case 'modbus-udp': {
      const { host, port } = hostAndPort(raw);
      return { peer: `${host}:${port}`, newPort: () => new UdpPort(host, port), cost: TCP_COST };
    }
    default:
      return tcp(raw, timeout);
  }
}

function tcp(raw: RawMap, timeout: number): Transport {
  const { host, port } = hostAndPort(raw);
  const options = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_DELAY };
  const peer = `${host}:${port}`;
  if (raw.tls === undefined) return { peer, newPort: () => new TcpPort(() => dialTcp(options), 'connect', timeout), cost: TCP_COST };
  const { ca, cert, key, server_name } = raw.tls as { ca?: string; cert?: string; key?: string; server_name?: string };
  const tls = { ...options, minVersion: 'TLSv1.2' as const, ca, cert, key, servername: server_name ?? host };
  return { peer, newPort: () => new TcpPort(() => dialTls(tls), 'secureConnect', timeout), cost: TCP_COST };
}

function overTcp(raw: RawMap, timeout: number): Transport {
  const { host, port } = hostAndPort(raw);
  const options = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_DELAY };
  const line = () => new SocketLine(() => dialTcp(options), timeout);
  const settings = { character: 0, silence: FIXED_SILENCE, timeout, echo: raw.echo === true, redials: true };
  return { peer: `${host}:${port}`, newPort: () => new RtuPort(line(), settings), cost: TCP_COST };
}

function serial(raw: RawMap, timeout: number): Transport {
  const baudRate = Number(raw.baud_rate ?? 19_200);
  const dataBits = Number(raw.data_bits ?? 8) as 7 | 8;
  const parity = (raw.parity ?? 'even') as 'none' | 'even' | 'odd';
  const stopBits = Number(raw.stop_bits ?? 1) as 1 | 2;
  const character = ((1 + dataBits + (parity === 'none' ? 0 : 1) + stopBits) * 1000) / baudRate;
  const silence = baudRate > FIXED_SILENCE_ABOVE ? FIXED_SILENCE : 3.5 * character;
  const path = String(raw.path);
  const settings = { character, silence, timeout, echo: raw.echo === true, redials: false };
  return {
    peer: path,
    newPort: () => new RtuPort(new SerialLine({ path, baudRate, dataBits, parity, stopBits }), settings),
    cost: serialCost(character, silence),
  };
}
