import type { HttpSettings } from '../model/access.ts';
import type { ConnectionConfig, DeviceEntry } from '../model/connection.ts';
import type { Problem } from '../model/errors.ts';
import type { Plant } from '../model/plant.ts';
import type { RawMap } from '../model/protocol.ts';
import type { Availability, PublishSpec } from '../model/publish.ts';
import type { Role } from '../model/role.ts';

/** A whole, checked configuration. */
export interface Config {
  readonly bridge: { readonly name: string; readonly description?: string; readonly notifyInterval: number };
  readonly connections: readonly ConnectionConfig[];
  readonly publish: readonly PublishSpec[];
  /** By connection: where its broker is told whether the bridge is there. */
  readonly availability: ReadonlyMap<string, Availability>;
  readonly devices: readonly DeviceEntry[];
  readonly plant: Plant;
  readonly safety: {
    readonly writes: 'disabled' | 'simulated' | 'enabled';
    readonly confirmTimeout: number;
    readonly approver: 'any' | 'other';
    readonly heartbeat?: { readonly point: string; readonly interval: number };
    /** The file that `fieldbridge lock` makes. */
    readonly lockFile: string;
    /** The socket of the control door. */
    readonly door: string;
    readonly maxWritesPerMinute: number;
    readonly killSwitch?: string;
    /** The file of the record, that of its key where the map names one, and the bytes at which a new one is begun. */
    readonly audit: { readonly path: string; readonly key?: string; readonly rotate: number };
  };
  readonly http: HttpSettings;
  readonly stdio: { readonly role: Role };
  /** Milliseconds and samples; 0 turns it off. */
  readonly history: { readonly keep: number; readonly maxSamples: number };
  readonly log: { readonly level: string };
  /** The whole map as it was checked, templates and secrets in place: what it says can be compared with a later one. */
  readonly raw: RawMap;
  /** Every file that was read for it. */
  readonly files: readonly string[];
  readonly warnings: readonly Problem[];
}
