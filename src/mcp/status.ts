import type { Control } from '../control/control.ts';
import type { Field } from '../control/field.ts';
import type { PendingView } from '../control/pending.ts';
import type { ConnectionStatus, DeviceStatus } from '../drivers/driver.ts';
import type { Quality } from '../model/sample.ts';
import type { Publisher, PublisherStatus } from '../northbound/publisher.ts';
import type { History } from '../store/history.ts';

export interface BridgeIdentity {
  readonly name: string;
  readonly description?: string;
  readonly version: string;
}

export interface BridgeStatus {
  readonly bridge: {
    readonly name: string;
    readonly description?: string;
    readonly version: string;
    readonly uptime_s: number;
    readonly writes: 'enabled' | 'simulated' | 'disabled';
    /** Points whose safe value is written unless their write is renewed. */
    readonly leases?: readonly { readonly point: string; readonly safe_value_at: string }[];
    readonly write_trouble?: string;
    readonly points: Readonly<Record<Quality | 'total', number>>;
  };
  readonly connections: readonly ConnectionStatus[];
  readonly devices: readonly DeviceStatus[];
  /** Where the map publishes points to brokers. */
  readonly publish?: readonly PublisherStatus[];
  /** Writes that wait for a person. */
  readonly pending: readonly PendingView[];
}

/** What the state of the bridge is made of. */
export interface StatusSources {
  readonly field: Field;
  readonly control: Control;
  readonly publishers: readonly Publisher[];
  readonly history: History;
}

export function bridgeStatus(identity: BridgeIdentity, { field, control, publishers }: Omit<StatusSources, 'history'>): BridgeStatus {
  const points = { total: 0, good: 0, uncertain: 0, bad: 0 };
  for (const point of field.plant.points.values()) {
    points.total++;
    points[field.live.get(point).quality]++;
  }
  const drivers = [...field.allDrivers];
  return {
    bridge: {
      ...identity,
      uptime_s: Math.round(process.uptime()),
      writes: control.mode,
      ...(control.duties.running.length > 0 && { leases: control.duties.running }),
      ...(control.trouble !== undefined && { write_trouble: control.trouble }),
      points,
    },
    connections: drivers.map(driver => driver.connectionStatus()),
    devices: drivers.flatMap(driver => driver.deviceStatus()),
    ...(publishers.length > 0 && { publish: publishers.map(publisher => publisher.status()) }),
    pending: control.pending,
  };
}
