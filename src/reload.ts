import { isDeepStrictEqual } from 'node:util';
import type { Config } from './config/config.ts';
import type { DeviceEntry } from './model/connection.ts';
import { type Device, Plant, type ToolSpec } from './model/plant.ts';
import type { Point } from './model/point.ts';
import { mapOf, type RawMap } from './model/protocol.ts';

/** Why a configuration that is sound can not be taken up by a bridge that runs. */
export class ReloadError extends Error {}

export type Fate =
  /** Nothing of it is touched. */
  | 'kept'
  /** Some of its devices changed. */
  | 'changed'
  /** It is closed, and made anew where it is still wanted. */
  | 'replaced';

/** What a new configuration changes: the new one, with everything of the old in place that is as it was. */
export interface Takeover {
  readonly config: Config;
  /** By connection, of both. */
  readonly fates: ReadonlyMap<string, Fate>;
  /** Points that are gone, or are not what they were. */
  readonly changed: ReadonlySet<Point>;
}

/**
 * Compares what the two maps say, key by key. Points, devices and connections that are said in the same words stay the
 * same objects, so that whatever holds them goes on.
 *
 * @throws ReloadError names what only a new start can change
 */
export function takeOver(old: Config, next: Config): Takeover {
  checkFixed(old, next);
  const sameWire = (name: string): boolean => isDeepStrictEqual(entryOf(old, 'connections', name), entryOf(next, 'connections', name));
  const before = new Map(old.devices.map(entry => [entry.name, entry]));
  const devices: DeviceEntry[] = [];
  const plants: Device[] = [];
  for (const entry of next.devices) {
    const was = before.get(entry.name);
    const known = old.plant.devices.get(entry.name);
    const made = next.plant.devices.get(entry.name);
    if (
      was === undefined ||
      known === undefined ||
      made === undefined ||
      was.connection !== entry.connection ||
      !sameWire(entry.connection)
    ) {
      devices.push(entry);
      if (made !== undefined) plants.push(made);
    } else if (isDeepStrictEqual(was.raw, entry.raw)) {
      devices.push(was);
      plants.push(known);
    } else {
      const points = keepPoints(was, known, entry);
      devices.push({ ...entry, points });
      plants.push({ ...made, points });
    }
  }
  const bare = new Plant(plants, []);
  const plant = new Plant(
    plants,
    next.plant.tools.map(tool => withPoints(tool, point => bare.points.get(point.name) ?? point)),
  );
  const config: Config = { ...next, devices, plant };
  const changed = new Set([...old.plant.points.values()].filter(point => plant.points.get(point.name) !== point));
  return { config, fates: fatesOf(old, config, changed, sameWire), changed };
}

function checkFixed(old: Config, next: Config): void {
  const fixed: readonly (readonly [key: string, value: (config: Config) => unknown])[] = [
    ['bridge.name', config => config.bridge.name],
    ['safety.audit', config => config.safety.audit.path],
    ['safety.audit_key', config => config.safety.audit.key],
    ['safety.audit_rotate', config => config.safety.audit.rotate],
    ['http.listen', config => [config.http.host, config.http.port]],
    ['http.tls', config => config.http.tls !== undefined],
    ['http.tls.client_ca', config => config.http.tls?.clientCa !== undefined],
  ];
  const moved = fixed.filter(([, value]) => !isDeepStrictEqual(value(old), value(next))).map(([key]) => key);
  if (moved.length > 0)
    throw new ReloadError(`${moved.join(', ')} can not change while the bridge runs; restart it, or take that change back`);
}

const entryOf = (config: Config, part: 'connections' | 'devices', name: string): RawMap => mapOf(mapOf(config.raw[part])[name]);

/** Points of a device that is otherwise the same, those in place that are said in the same words. */
function keepPoints(was: DeviceEntry, known: Device, entry: DeviceEntry): readonly Point[] {
  const { points: oldPoints, ...oldRest } = was.raw;
  const { points: newPoints, ...newRest } = entry.raw;
  if (!isDeepStrictEqual(oldRest, newRest)) return entry.points;
  const [a, b] = [mapOf(oldPoints), mapOf(newPoints)];
  const isSame = (id: string): boolean => a[id] !== undefined && isDeepStrictEqual(a[id], b[id]);
  const byName = new Map(known.points.map(point => [point.name, point]));
  return entry.points.map(point => {
    // A value is what it was only while the point that holds its scale is.
    const scale = mapOf(b[point.id]).scale_from;
    const isKept = isSame(point.id) && (scale === undefined || isSame(String(scale)));
    return (isKept ? byName.get(point.name) : undefined) ?? point;
  });
}

function withPoints(tool: ToolSpec, now: (point: Point) => Point): ToolSpec {
  switch (tool.kind) {
    case 'read':
      return { ...tool, points: tool.points.map(now) };
    case 'steps':
      return { ...tool, steps: tool.steps.map(step => ({ ...step, point: now(step.point) })) };
    default:
      return { ...tool, point: now(tool.point) };
  }
}

function fatesOf(old: Config, next: Config, changed: ReadonlySet<Point>, sameWire: (name: string) => boolean): Map<string, Fate> {
  const names = new Set([...old.connections, ...next.connections].map(({ name }) => name));
  const entries = (config: Config, name: string): readonly DeviceEntry[] => config.devices.filter(device => device.connection === name);
  const added = [...next.plant.points.values()].filter(point => old.plant.points.get(point.name) !== point);
  return new Map(
    [...names].map(name => {
      const [before, now] = [entries(old, name), entries(next, name)];
      const sameDevices = before.length === now.length && now.every(entry => before.includes(entry));
      const published = [...old.publish, ...next.publish].filter(spec => spec.connection === name);
      const samePublished =
        isDeepStrictEqual(publishedTo(old, name), publishedTo(next, name)) &&
        isDeepStrictEqual(old.availability.get(name), next.availability.get(name)) &&
        !published.some(({ includes }) => [...changed, ...added].some(includes));
      if (!sameWire(name) || !samePublished) return [name, 'replaced'];
      if (sameDevices) return [name, 'kept'];
      // The last device takes its connection with it, and the first brings it.
      return [name, before.length === 0 || now.length === 0 ? 'replaced' : 'changed'];
    }),
  );
}

const publishedTo = ({ raw }: Config, name: string): unknown[] =>
  (Array.isArray(raw.publish) ? raw.publish : [raw.publish]).filter(entry => mapOf(entry).connection === name);
