import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseDuration } from '../model/duration.ts';
import { ConfigError, type Problem } from '../model/errors.ts';
import type { JsonSchema } from '../model/json-schema.ts';
import { type Device, Plant } from '../model/plant.ts';
import { type ConfigPath, mapOf, type Protocol, type RawMap } from '../model/protocol.ts';
import type { Role } from '../model/role.ts';
import { parseSize } from '../model/size.ts';
import type { Config } from './config.ts';
import { reportForeignKeys } from './foreign.ts';
import { compileHttp } from './http.ts';
import { availabilityOf, compilePublish } from './publish.ts';
import { type Resolved, resolveSecrets } from './secrets.ts';
import { Sources, showPath } from './source.ts';
import { expandTemplates } from './templates.ts';
import { compileTools, didYouMean } from './tools.ts';
import { validate } from './validate.ts';
import { checkWrites } from './writes.ts';

/** How many mistakes are told at once; a file that is no map at all would fill the screen. */
const MAX_PROBLEMS = 200;

type Report = (path: ConfigPath, message: string, at?: 'key' | 'value') => void;

/**
 * Reads, merges and checks the files of a configuration and compiles its plant. Opens no connection.
 *
 * @param grammar the schema that these protocols make
 * @throws ConfigError with every mistake that was found, in the order of the files' lines
 */
export function loadConfig(files: readonly string[], protocols: readonly Protocol[], grammar: JsonSchema): Config {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const sources = Sources.read(files, problems);
  const read = new Set(files.map(file => resolve(file)));
  if (!sources.readable) throw new ConfigError(inOrder(problems), [...read]);

  const report: Report = (path, message, at) => void problems.push(sources.problem(path, message, at));
  const warn: Report = (path, message, at) => void warnings.push(sources.problem(path, message, at));
  const resolved = resolveSecrets(sources.value, sources, report, warn);
  const { secret } = resolved;
  for (const file of resolved.files) read.add(file);
  const value = expandTemplates(
    resolved.value,
    path => sources.folderOf(path),
    report,
    file => read.add(file),
  );
  for (const mistake of validate(grammar, value, secret)) report(mistake.path, mistake.message, mistake.at);

  // What is well-formed is cross-checked even where something else is not: all mistakes at once.
  const broken = new Set(problems.map(problem => problem.path));
  const raw = broken.size === 0 ? value : pruned(value, [], path => broken.has(showPath(path)));
  const config = assemble(raw, value, sources, resolved, protocols, report, warn);
  if (problems.length > 0) throw new ConfigError(inOrder(problems), [...read]);
  return { ...config, raw: mapOf(value), files: [...read], warnings };
}

function inOrder(problems: readonly Problem[]): Problem[] {
  const unique = new Map(problems.map(problem => [`${problem.file}:${problem.line}:${problem.column}:${problem.message}`, problem]));
  const sorted = [...unique.values()].sort((a, b) => (a.file === b.file ? a.line - b.line || a.column - b.column : 0));
  if (sorted.length <= MAX_PROBLEMS) return sorted;
  const last = sorted[MAX_PROBLEMS - 1] as Problem;
  return [
    ...sorted.slice(0, MAX_PROBLEMS),
    { ...last, path: '', message: `… and ${sorted.length - MAX_PROBLEMS} more mistakes after these` },
  ];
}

/** The map without the values that are mistaken in themselves, so that the rest can be looked at. */
function pruned(value: unknown, path: ConfigPath, isBroken: (path: ConfigPath) => boolean): unknown {
  if (path.length > 0 && isBroken(path)) return undefined;
  if (Array.isArray(value)) return value.map((item, i) => pruned(item, [...path, i], isBroken));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => {
    const step = /^\d+$/.test(key) ? Number(key) : key;
    return [key, pruned(item, [...path, step], isBroken)] as const;
  });
  return Object.fromEntries(entries.filter(([, item]) => item !== undefined));
}

function assemble(
  value: unknown,
  whole: unknown,
  sources: Sources,
  resolved: Resolved,
  protocols: readonly Protocol[],
  report: Report,
  warn: Report,
): Omit<Config, 'warnings' | 'raw' | 'files'> {
  const raw = mapOf(value);
  const given = mapOf(whole);
  const bridge = mapOf(raw.bridge);
  const safety = mapOf(raw.safety);
  const name = String(bridge.name ?? 'fieldbridge');
  const connections = compileConnections(raw, protocols, report);
  const { devices, plants } = compileDevices(raw, given, protocols, report, warn);
  const declared = new Set(
    Object.entries(mapOf(given.devices)).flatMap(([device, entry]) =>
      Object.keys(mapOf(mapOf(entry).points)).map(point => `${device}.${point}`),
    ),
  );
  const publish = compilePublish({
    raw: raw.publish,
    bridge: name,
    connections: mapOf(given.connections),
    plant: new Plant(plants, []),
    declared,
    protocols,
    folderOf: at => sources.folderOf(at),
    defaultFolder: stateFolder(),
    report,
  });
  const availability = new Map(
    connections.flatMap(connection => {
      const said = availabilityOf(connection.name, connection.raw, name, publish);
      return said === undefined ? [] : [[connection.name, said] as const];
    }),
  );
  for (const connection of connections) {
    const isUsed = publish.some(spec => spec.connection === connection.name) || connection.raw.availability !== undefined;
    if (!isUsed && !devices.some(device => device.connection === connection.name))
      warn(['connections', connection.name], 'no device uses this connection; it will not be opened', 'key');
  }
  const tools = compileTools(mapOf(raw.tools), new Plant(plants, []), declared, report);
  checkWrites(new Plant(plants, []), safety.heartbeat, report, warn);
  const path = (text: unknown, at: ConfigPath): string => resolve(sources.folderOf(at), String(text));
  const auditPath = safety.audit === undefined ? join(stateFolder(), `${name}.audit.jsonl`) : path(safety.audit, ['safety', 'audit']);
  return {
    bridge: {
      name,
      ...(bridge.description !== undefined && { description: String(bridge.description) }),
      notifyInterval: parseDuration(bridge.notify_interval ?? '100ms') ?? 100,
    },
    connections,
    publish,
    availability,
    devices,
    plant: new Plant(plants, tools),
    safety: {
      writes: (safety.writes ?? 'disabled') as Config['safety']['writes'],
      confirmTimeout: parseDuration(safety.confirm_timeout ?? '2m') ?? 120_000,
      approver: (safety.approver ?? 'any') as Config['safety']['approver'],
      ...compileHeartbeat(safety.heartbeat),
      maxWritesPerMinute: Number(safety.max_writes_per_minute ?? 30),
      ...(safety.kill_switch !== undefined && { killSwitch: path(safety.kill_switch, ['safety', 'kill_switch']) }),
      // Only one bridge at a time has an audit file, so what belongs to that bridge stands beside it.
      lockFile: `${auditPath}.locked`,
      door: `${auditPath}.control`,
      audit: {
        path: auditPath,
        ...(safety.audit_key !== undefined && { key: path(safety.audit_key, ['safety', 'audit_key']) }),
        rotate: parseSize(safety.audit_rotate ?? '50MB') ?? 0,
      },
    },
    http: compileHttp(mapOf(raw.http), path => resolved.fileOf(path), report, warn),
    stdio: { role: (mapOf(raw.stdio).role ?? 'viewer') as Role },
    history: compileHistory(raw.history),
    log: { level: String(mapOf(raw.log).level ?? 'info') },
  };
}

/** Where a service manager gives a folder for state, there; else in the user's own. */
function stateFolder(): string {
  return (
    process.env.STATE_DIRECTORY?.split(':')[0] ?? join(process.env.XDG_STATE_HOME ?? join(homedir(), '.local', 'state'), 'fieldbridge')
  );
}

function compileConnections(raw: RawMap, protocols: readonly Protocol[], report: Report): Config['connections'] {
  const byEndpoint = new Map<string, string>();
  return Object.entries(mapOf(raw.connections)).flatMap(([name, entry]) => {
    const connection = mapOf(entry);
    const type = String(connection.type);
    const protocol = protocols.find(one => type in one.connections);
    if (protocol === undefined) return [];
    protocol.checkConnection?.(connection, (message, key) => report(['connections', name, key], message, 'key'));
    const endpoint = protocol.endpoint(connection);
    const other = byEndpoint.get(endpoint);
    if (other !== undefined && (connection.host ?? connection.path) !== undefined)
      report(
        ['connections', name],
        `${endpoint} is the connection ${other} already; put its devices there, since many devices accept one client only`,
        'key',
      );
    byEndpoint.set(endpoint, other ?? name);
    return [{ name, type, raw: connection }];
  });
}

function compileDevices(
  raw: RawMap,
  given: RawMap,
  protocols: readonly Protocol[],
  report: Report,
  warn: Report,
): { devices: Config['devices']; plants: Device[] } {
  const connections = mapOf(given.connections);
  const devices: Config['devices'][number][] = [];
  const plants: Device[] = [];
  for (const [name, entry] of Object.entries(mapOf(raw.devices))) {
    const device = mapOf(entry);
    const path: ConfigPath = ['devices', name];
    if (name === 'status') report(path, 'the name status is taken: plant://status is the state of the bridge', 'key');
    const wire = mapOf(connections[String(device.connection ?? '')]);
    const isOptional = protocols.some(one => String(wire.type) in one.connections && one.pointsOptional?.(wire, device) === true);
    if (!isOptional && mapOf(mapOf(given.devices)[name]).points === undefined)
      report([...path, 'points'], 'points is missing, or `use` with the template of a known device', 'key');
    const connection = String(device.connection ?? '');
    if (device.connection !== undefined && !Object.hasOwn(connections, connection))
      report([...path, 'connection'], `no connection ${connection}${didYouMean(connection, Object.keys(connections))}`);
    const type = String(mapOf(connections[connection]).type);
    // A device whose connection is mistaken is still looked at, by the protocol that its points speak.
    const protocol = protocols.find(one => type in one.connections) ?? protocols[0];
    const isKnown = protocols.some(one => type in one.connections);
    if (isKnown && protocol !== undefined) reportForeignKeys(device, path, type, protocol, protocols, report);
    const points =
      protocol?.compile({
        name,
        raw: device,
        connection: wire,
        path,
        report: (at, message) => report(at, message),
        warn: (at, message) => warn(at, message),
      }) ?? [];
    devices.push({ name, connection, raw: device, points });
    plants.push({
      name,
      connection,
      ...(device.description !== undefined && { description: String(device.description) }),
      uri: `plant://${name}`,
      points,
    });
  }
  return { devices, plants };
}

function compileHistory(raw: unknown): Config['history'] {
  const { keep, max_samples } = mapOf(raw);
  return { keep: raw === 0 ? 0 : (parseDuration(keep ?? '1h') ?? 0), maxSamples: Number(max_samples ?? 1_000_000) };
}

function compileHeartbeat(raw: unknown): Pick<Config['safety'], 'heartbeat'> {
  const { point, interval } = mapOf(raw);
  return typeof point === 'string' ? { heartbeat: { point, interval: parseDuration(interval ?? '1s') ?? 1000 } } : {};
}
