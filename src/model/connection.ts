import type { Point } from './point.ts';
import type { RawMap } from './protocol.ts';

export interface ConnectionConfig {
  readonly name: string;
  readonly type: string;
  /** As it stands in the map, checked against its protocol's schema, secrets in place. */
  readonly raw: RawMap;
}

/** A device as its driver needs it. */
export interface DeviceEntry {
  readonly name: string;
  readonly connection: string;
  readonly raw: RawMap;
  readonly points: readonly Point[];
}
