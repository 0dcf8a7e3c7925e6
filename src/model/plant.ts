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
  private readonly deviceMap: Map<string, Device>;
  private readonly pointMap: Map<string, Point>;
  private readonly uriMap: Map<string, Point>;
  readonly tools: readonly ToolSpec[];

  constructor(devices: readonly Device[], tools: readonly ToolSpec[]) {
    const points = devices.flatMap(device => device.points);
    this.deviceMap = new Map(devices.map(device => [device.name, device]));
    this.pointMap = new Map(points.map(point => [point.name, point]));
    this.uriMap = new Map(points.map(point => [point.uri, point]));
    this.tools = tools;
  }

  get devices(): ReadonlyMap<string, Device> {
    return this.deviceMap;
  }

  get points(): ReadonlyMap<string, Point> {
    return this.pointMap;
  }

  get byUri(): ReadonlyMap<string, Point> {
    return this.uriMap;
  }

  /** Points that a device tells of itself: new ones, and ones of the map with what it left open. */
  learn(name: string, points: readonly Point[]): void {
    const device = this.deviceMap.get(name);
    if (device === undefined) return;
    const all = new Map(device.points.map(point => [point.name, point]));
    for (const point of points) {
      all.set(point.name, point);
      this.pointMap.set(point.name, point);
      this.uriMap.set(point.uri, point);
    }
    this.deviceMap.set(name, { ...device, points: [...all.values()] });
  }

  /** Points for lists: everything but the hidden ones, in the order of the map. */
  *visible(): Iterable<Point> {
    for (const point of this.points.values()) if (!point.hidden) yield point;
  }
}
