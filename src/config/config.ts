import type { ConnectionConfig, DeviceEntry } from '../model/connection.ts';
import type { Problem } from '../model/errors.ts';
import type { HttpLimits } from '../model/limits.ts';
import type { Plant } from '../model/plant.ts';
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
  readonly http: {
    readonly host: string;
    readonly port: number;
    readonly path: string;
    readonly allowedHosts: readonly string[];
    readonly allowedOrigins: readonly string[];
    readonly limits: HttpLimits;
    readonly tokens: readonly { readonly name: string; readonly role: Role; readonly sha256: string; readonly approves: boolean }[];
  };
  readonly stdio: { readonly role: Role };
  /** Milliseconds and samples; 0 turns it off. */
  readonly history: { readonly keep: number; readonly maxSamples: number };
  readonly log: { readonly level: string };
  readonly warnings: readonly Problem[];
}
