import type { JsonSchema } from './json-schema.ts';
import type { Point } from './point.ts';

export type RawMap = { readonly [key: string]: unknown };

/** What stands in the map where a map of keys belongs; nothing, where something else does. */
export const mapOf = (value: unknown): RawMap =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as RawMap) : {};

/** Where in the map something stands: the keys from the top. */
export type ConfigPath = readonly (string | number)[];

export interface DeviceInput {
  readonly name: string;
  readonly raw: RawMap;
  /** The entry of the connection that it is reached by. */
  readonly connection: RawMap;
  readonly path: ConfigPath;
  report(path: ConfigPath, message: string): void;
  warn(path: ConfigPath, message: string): void;
}

/**
 * What a protocol adds to the map: schema fragments for its connections, devices and points, and the compiler that
 * turns a device's checked entry into points. The configuration knows protocols by this alone.
 */
export interface Protocol {
  /** Connection type -> the schema of such a connection without its `type`. */
  readonly connections: Readonly<Record<string, JsonSchema>>;
  /** What a connection talks to, `host:port`: no two connections may name the same. */
  endpoint(connection: RawMap): string;
  /** Mistakes of a connection that its schema can not see. */
  checkConnection?(connection: RawMap, report: (message: string, key: string) => void): void;
  readonly deviceProperties: Readonly<Record<string, JsonSchema>>;
  readonly pointProperties: Readonly<Record<string, JsonSchema>>;
  /** Keys of other protocols' points that this one's take as well. */
  readonly sharedProperties?: readonly string[];
  /** Keys of which a point has exactly one. */
  readonly pointSources: readonly string[];
  /** Key of `write` that stands for a source where a point can only be written. */
  readonly writeOnlySource?: string;
  /** Whether a device may come without points, because it tells them itself. */
  pointsOptional?(connection: RawMap, device: RawMap): boolean;
  readonly writeProperties: Readonly<Record<string, JsonSchema>>;
  /** Who of these points listens to a topic. */
  hearers?(points: readonly Point[]): (topic: string) => Point | undefined;
  /** Makes the points of a device; mistakes are reported, and the points that have none are returned. */
  compile(device: DeviceInput): readonly Point[];
}
