import type { IClientOptions } from 'mqtt';
import { parseDuration } from '../../model/duration.ts';
import type { RawMap } from '../../model/protocol.ts';

/** Larger packets the broker keeps to itself, where it speaks MQTT 5 (3.1.2.11.4). */
const MAX_PACKET = 16_777_216 + 65_536;

/** What the broker publishes when the session is lost (MQTT 5.0, 3.1.2.5). */
export interface Will {
  readonly topic: string;
  readonly payload: string | Buffer;
  readonly qos: 0 | 1;
  readonly retain: boolean;
}

/** A connection's entry in the map as the library takes it. */
export function sessionOptions(
  raw: RawMap,
  { clientId, version, timeout }: { readonly clientId: string; readonly version: 4 | 5; readonly timeout: number },
  will: Will | undefined,
): IClientOptions {
  const tls = (raw.tls ?? {}) as { ca?: string; cert?: string; key?: string; server_name?: string };
  const seconds = (duration: unknown, byDefault: number): number => Math.max(1, Math.round((parseDuration(duration) ?? byDefault) / 1000));
  return {
    protocolVersion: version,
    clientId,
    clean: raw.clean !== false,
    keepalive: seconds(raw.keepalive, 30_000),
    connectTimeout: timeout,
    // Connecting again is the session's own: with growing pauses, and not at all costs.
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    ...(version === 5 && {
      properties: {
        maximumPacketSize: MAX_PACKET,
        ...(raw.clean === false && { sessionExpiryInterval: seconds(raw.session_expiry, 3_600_000) }),
      },
    }),
    ...(raw.username !== undefined && { username: String(raw.username) }),
    ...(raw.password !== undefined && { password: String(raw.password) }),
    ...(tls.ca !== undefined && { ca: tls.ca }),
    ...(tls.cert !== undefined && { cert: tls.cert }),
    ...(tls.key !== undefined && { key: tls.key }),
    ...(tls.server_name !== undefined && {
      servername: tls.server_name,
      wsOptions: { servername: tls.server_name } as NonNullable<IClientOptions['wsOptions']>,
    }),
    ...(will !== undefined && { will: { ...will, payload: Buffer.from(will.payload) } }),
  };
}
