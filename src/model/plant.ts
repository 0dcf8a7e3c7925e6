import type { Point } from './point.ts';

export interface Device {
  readonly name: string;
  readonly connection: string;
  readonly description?: string;
  /** `plant://device` */
  readonly uri: string;
  readonly points: readonly Point[];
}

/** A tool named in the map, resolved to points. */
export type ToolSpec = { readonly name: string; readonly description?: string } & (
  | { readonly kind: 'read'; readonly points: readonly Point[] }
  | { readonly kind: 'write'; readonly point: Point }
  | { readonly kind: 'toggle'; readonly point: Point }
  | { readonly kind: 'steps'; readonly steps: readonly { readonly point: Point; readonly value: unknown }[] }
);

/** The tools that every bridge has; a map's own tools are called otherwise. */
export const GENERAL_TOOLS = ['list_points', 'read_points', 'read_history', 'wait_for', 'write_point', 'get_status'] as const;

/** Everything that one configuration names, ready to be looked up. */
export class Plant {
  readonly devices: ReadonlyMap<string, Device>;
  readonly points: ReadonlyMap<string, Point>;
  readonly byUri: ReadonlyMap<string, Point>;
  readonly tools: readonly ToolSpec[];

  constructor(devices: readonly Device[], tools: readonly ToolSpec[]) {
    const points = devices.flatMap(device => device.points);
    this.devices = new Map(devices.map(device => [device.name, device]));
    this.points = new Map(points.map(point => [point.name, point]));
    this.byUri = new Map(points.map(point => [point.uri, point]));
    this.tools = tools;
  }

  /** Points for lists: everything but the hidden ones, in the order of the map. */
  *visible(): Iterable<Point> {
    for (const point of this.points.values()) if (!point.hidden) yield point;
  }
}
