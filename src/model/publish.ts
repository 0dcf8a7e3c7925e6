import type { Point } from './point.ts';

/** What the bridge publishes to a broker: which points, how, and how much is kept while the broker is away. */
export type PublishSpec = {
  /** Names it in logs and on the disk: the connection, with a number where it has several. */
  readonly name: string;
  readonly connection: string;
  readonly includes: (point: Point) => boolean;
  /** undefined: nothing is kept. */
  readonly store: { readonly folder: string; readonly maxBytes: number } | undefined;
} & (
  | { readonly format: 'json'; readonly topic: string; readonly qos: 0 | 1 | 2; readonly retain: boolean }
  | { readonly format: 'sparkplug'; readonly group: string; readonly edgeNode: string }
);

/** Where the bridge tells whether it is there. */
export interface Availability {
  readonly topic: string;
  readonly online: string;
  readonly offline: string;
}

/** The topic of a point: `plant/{device}/{point}` with its names put in. */
export function topicOf(template: string, bridge: string, point: Pick<Point, 'device' | 'id'>): string {
  return template.replaceAll('{bridge}', bridge).replaceAll('{device}', point.device).replaceAll('{point}', point.id);
}
