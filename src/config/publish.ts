import { join, resolve } from 'node:path';
import { globMatcher, isGlob } from '../model/glob.ts';
import { type JsonSchema, object } from '../model/json-schema.ts';
import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import { type ConfigPath, mapOf, type Protocol, type RawMap } from '../model/protocol.ts';
import { type Availability, type PublishSpec, topicOf } from '../model/publish.ts';
import { parseSize, SIZE_PATTERN } from '../model/size.ts';
import { didYouMean } from './tools.ts';

type Report = (path: ConfigPath, message: string, at?: 'key' | 'value') => void;

const DEFAULT_TOPIC = 'plant/{device}/{point}';

const sparkplugId = { type: 'string', pattern: '^[^/+#]+$', maxLength: 200, expected: 'a name without / + and #' } as const;
/** The grammar of one entry of `publish`. */
export const publication: JsonSchema = object(
  {
    connection: { type: 'string', description: 'The broker' },
    points: {
      anyOf: [
        { type: 'string', minLength: 1 },
        { type: 'array', minItems: 1, items: { type: 'string', minLength: 1 } },
      ],
      default: '*',
      expected: 'a point, a glob such as boiler.*, or a list of them',
      description: 'Which points; default: all that are not hidden',
    },
    topic: {
      type: 'string',
      minLength: 1,
      maxLength: 1000,
      default: DEFAULT_TOPIC,
      description: 'Topic of a point, with {device}, {point} and {bridge}',
    },
    qos: { enum: [0, 1, 2], default: 1, description: 'MQTT quality of service' },
    retain: { type: 'boolean', default: true, description: 'Whether the broker keeps the newest for those who come later' },
    sparkplug: object(
      {
        group: { ...sparkplugId, description: 'Group id' },
        edge_node: { ...sparkplugId, description: 'Edge node id; default: the name of the bridge' },
      },
      ['group'],
      { description: 'As a Sparkplug B edge node, in place of JSON' },
    ),
    store: {
      if: { type: 'object' },
      // biome-ignore lint/suspicious/noThenProperty: JSON Schema's own keyword
      then: object({
        path: { type: 'string', minLength: 1, description: 'Folder; default: in the folder for state' },
        max: {
          type: 'string',
          pattern: SIZE_PATTERN,
          default: '50MB',
          expected: 'a size such as 500kB, 50MB or 1GB',
          description: 'Most that it holds; beyond it the oldest is dropped',
        },
      }),
      else: { const: 'off', expected: 'a store as { max: 50MB, path: … }, or off' },
      description: 'Keeps on the disk what changes while the broker is away; off drops it',
    },
  },
  ['connection'],
  { description: 'What is published to one broker' },
);

export interface PublishInput {
  readonly raw: unknown;
  readonly bridge: string;
  readonly connections: RawMap;
  readonly plant: Plant;
  /** All names, also of points that have a mistake. */
  readonly declared: ReadonlySet<string>;
  readonly protocols: readonly Protocol[];
  readonly folderOf: (path: ConfigPath) => string;
  readonly defaultFolder: string;
  readonly report: Report;
}

/** What is published where: one entry, or a list of them. */
export function compilePublish(input: PublishInput): PublishSpec[] {
  if (input.raw === undefined) return [];
  const entries: readonly (readonly [RawMap, ConfigPath])[] = Array.isArray(input.raw)
    ? input.raw.map((entry, i) => [mapOf(entry), ['publish', i]] as const)
    : [[mapOf(input.raw), ['publish']]];
  const used = new Map<string, number>();
  const specs = entries.flatMap(([raw, path]) => {
    const connection = String(raw.connection ?? '');
    const number = (used.get(connection) ?? 0) + 1;
    used.set(connection, number);
    return compileOne(input, raw, path, number === 1 ? connection : `${connection}-${number}`) ?? [];
  });
  checkTopics(input, specs, entries);
  checkWills(input, specs, entries);
  return specs;
}

function compileOne(input: PublishInput, raw: RawMap, path: ConfigPath, name: string): PublishSpec | undefined {
  const { report, connections } = input;
  const connection = String(raw.connection ?? '');
  const entry = mapOf(connections[connection]);
  if (raw.connection === undefined) return undefined;
  if (!Object.hasOwn(connections, connection)) {
    report([...path, 'connection'], `no connection ${connection}${didYouMean(connection, Object.keys(connections))}`);
    return undefined;
  }
  if (entry.type !== 'mqtt')
    report([...path, 'connection'], `points are published to a broker; ${connection} is of type ${String(entry.type)}`);
  const store = mapOf(raw.store);
  const folder =
    store.path === undefined
      ? join(input.defaultFolder, `${input.bridge}.outbox`, name)
      : resolve(input.folderOf(path), String(store.path));
  const common = {
    name,
    connection,
    includes: selector(input, raw.points, path),
    store: raw.store === 'off' ? undefined : { folder, maxBytes: parseSize(store.max ?? '50MB') ?? 0 },
  };
  if (raw.sparkplug !== undefined) {
    for (const key of ['topic', 'qos', 'retain'] as const)
      if (raw[key] !== undefined) report([...path, key], `${key} goes with JSON; Sparkplug says what it is`, 'key');
    const { group, edge_node } = mapOf(raw.sparkplug);
    return { ...common, format: 'sparkplug', group: String(group), edgeNode: String(edge_node ?? input.bridge) };
  }
  return {
    ...common,
    format: 'json',
    topic: String(raw.topic ?? DEFAULT_TOPIC),
    qos: Number(raw.qos ?? 1) as 0 | 1 | 2,
    retain: raw.retain !== false,
  };
}

/** Names and globs of points; a glob also takes what a device tells of itself later. */
function selector({ plant, declared, report }: PublishInput, raw: unknown, path: ConfigPath): (point: Point) => boolean {
  const names = raw === undefined ? ['*'] : Array.isArray(raw) ? raw.map(String) : [String(raw)];
  const exact = new Set(names.filter(name => !isGlob(name)));
  const globs = names.filter(isGlob).map(globMatcher);
  for (const [i, name] of names.entries()) {
    const at: ConfigPath = [...path, 'points', ...(Array.isArray(raw) ? [i] : [])];
    if (isGlob(name) || declared.has(name) || plant.points.has(name)) continue;
    // A device that brings its own points may have it.
    const [device = ''] = name.split('.');
    if (plant.devices.get(device)?.points.length !== 0) report(at, `no point ${name}${didYouMean(name, declared)}`);
  }
  return point => exact.has(point.name) || (!point.hidden && globs.some(matches => matches(point.name)));
}

/** Each point on a topic of its own, which nobody of this bridge listens to on the same broker. */
function checkTopics(
  { plant, bridge, report, protocols, connections }: PublishInput,
  specs: readonly PublishSpec[],
  entries: readonly (readonly [RawMap, ConfigPath])[],
): void {
  const taken = new Map<string, string>();
  for (const spec of specs) {
    if (spec.format !== 'json') continue;
    const path = entries.find(([raw]) => String(raw.connection) === spec.connection && raw.sparkplug === undefined)?.[1] ?? ['publish'];
    const at: ConfigPath = [...path, 'topic'];
    if (/[+#\u0000]/.test(spec.topic)) {
      report(at, 'a message is published to one topic, without + and #');
      continue;
    }
    const unknown = /\{(?!device\}|point\}|bridge\})[^}]*\}?/.exec(spec.topic)?.[0];
    if (unknown !== undefined) {
      report(at, `${unknown} is unknown; there are {device}, {point} and {bridge}`);
      continue;
    }
    const neighbours = [...plant.devices.values()]
      .filter(device => mapOf(connections[device.connection]).url === mapOf(connections[spec.connection]).url)
      .flatMap(device => device.points);
    const hearers = protocols.flatMap(protocol => protocol.hearers?.(neighbours) ?? []);
    for (const point of plant.points.values()) {
      if (!spec.includes(point)) continue;
      const topic = topicOf(spec.topic, bridge, point);
      const key = `${String(mapOf(connections[spec.connection]).url)} ${topic}`;
      const other = taken.get(key);
      if (other !== undefined) {
        report(at, `${other} and ${point.name} would both be published to ${topic}; put {device} and {point} into the topic`);
        break;
      }
      taken.set(key, point.name);
      const heard = hearers.map(find => find(topic)).find(one => one !== undefined);
      if (heard !== undefined) {
        report(at, `${point.name} would be published to ${topic}, which ${heard.name} listens to: it would hear the bridge itself`);
        break;
      }
    }
  }
}

/** A session has one will: that of Sparkplug, or that of the bridge's own availability. */
function checkWills(
  { connections, report }: PublishInput,
  specs: readonly PublishSpec[],
  entries: readonly (readonly [RawMap, ConfigPath])[],
): void {
  const seen = new Set<string>();
  for (const spec of specs) {
    if (spec.format !== 'sparkplug') continue;
    const path = entries.find(([raw]) => String(raw.connection) === spec.connection && raw.sparkplug !== undefined)?.[1] ?? ['publish'];
    if (seen.has(spec.connection))
      report(
        [...path, 'connection'],
        `${spec.connection} is one Sparkplug edge node already, and a session can be only one; use another connection`,
      );
    seen.add(spec.connection);
    if (mapOf(connections[spec.connection]).clean === false)
      report(['connections', spec.connection, 'clean'], 'a Sparkplug edge node begins each session anew; leave clean out', 'key');
    if (mapOf(connections[spec.connection]).availability !== undefined)
      report(
        ['connections', spec.connection, 'availability'],
        'a session has one will, and here it is the death certificate of Sparkplug; leave availability out',
        'key',
      );
  }
}

/** Where each broker is told whether the bridge is there: said in the map, or, where JSON is published, by default. */
export function availabilityOf(name: string, connection: RawMap, bridge: string, specs: readonly PublishSpec[]): Availability | undefined {
  const mine = specs.filter(spec => spec.connection === name);
  if (mine.some(spec => spec.format === 'sparkplug')) return undefined;
  const given = connection.availability as Partial<Availability> | undefined;
  if (given === undefined && mine.length === 0) return undefined;
  return {
    topic: given?.topic ?? `fieldbridge/${bridge}/status`,
    online: given?.online ?? 'online',
    offline: given?.offline ?? 'offline',
  };
}
