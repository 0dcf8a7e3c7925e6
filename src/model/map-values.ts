import { parseDuration } from './duration.ts';
import type { JsonSchema } from './json-schema.ts';
import type { Deadband, Point, ValueKind, WriteRule } from './point.ts';
import type { DeviceInput, RawMap } from './protocol.ts';
import type { Role } from './role.ts';

/** A point's deadband: a number in engineering units, or a share such as `2%`. */
function deadbandOf(raw: unknown): Deadband {
  return typeof raw === 'string' ? { percent: Number(raw.slice(0, -1)) } : { absolute: Number(raw ?? 0) };
}

/** What a point's `write:` entry allows, whatever protocol carries it. */
export function writeRule(raw: RawMap): WriteRule {
  const by = typeof raw.verify === 'object' && raw.verify !== null ? (raw.verify as RawMap) : undefined;
  const verify = raw.verify === 'off' ? undefined : (parseDuration(by === undefined ? (raw.verify ?? '2s') : (by.within ?? '5s')) ?? 2000);
  const pulse = parseDuration(raw.pulse);
  const lease = raw.lease as RawMap | undefined;
  const ttl = parseDuration(lease?.ttl);
  return {
    ...(raw.min !== undefined && { min: Number(raw.min) }),
    ...(raw.max !== undefined && { max: Number(raw.max) }),
    ...(raw.max_step !== undefined && { maxStep: Number(raw.max_step) }),
    role: (raw.role ?? 'operator') as Role,
    minInterval: parseDuration(raw.min_interval ?? '0ms') ?? 0,
    ...(verify !== undefined && { verify }),
    ...(by !== undefined && { verifyBy: { point: String(by.point), tolerance: Number(by.tolerance ?? 0) } }),
    ...(raw.interlock !== undefined && { interlock: String(raw.interlock) }),
    confirm: (raw.confirm ?? 'none') as WriteRule['confirm'],
    ...(raw.max_per_day !== undefined && { maxPerDay: Number(raw.max_per_day) }),
    ...(pulse !== undefined && { pulse: { ms: pulse, onRestart: (raw.on_restart ?? 'release') as 'release' | 'report' } }),
    ...(lease?.safe !== undefined && ttl !== undefined && { lease: { ttl, safe: lease.safe } }),
  };
}

/** What every point has, whatever protocol it comes by. */
export function commonOf(
  device: DeviceInput,
  id: string,
  raw: RawMap,
): Pick<Point, 'name' | 'device' | 'id' | 'uri' | 'description' | 'unit' | 'range' | 'deadband' | 'hidden'> {
  return {
    name: `${device.name}.${id}`,
    device: device.name,
    id,
    uri: `plant://${device.name}/${id}`,
    ...(raw.description !== undefined && { description: String(raw.description) }),
    ...(raw.unit !== undefined && { unit: String(raw.unit) }),
    ...(raw.range !== undefined && { range: raw.range as readonly [number, number] }),
    deadband: deadbandOf(raw.deadband),
    hidden: raw.hidden === true,
  };
}

/**
 * What a client may write, by the kind of value.
 *
 * @param ofNumber the schema of a number, which is the protocol's own
 * @param length bytes of a text or of bytes, where they are fixed
 */
export function writeSchemaOf(value: ValueKind, ofNumber: () => JsonSchema, length?: number): JsonSchema {
  switch (value.kind) {
    case 'bool':
      return { type: 'boolean' };
    case 'enum':
      return { type: 'string', enum: value.labels };
    case 'flags':
      return { type: 'array', items: { type: 'string' }, uniqueItems: true, description: `of ${value.labels.join(', ')}` };
    case 'text':
      return { type: 'string', ...(length !== undefined && { maxLength: length }) };
    case 'bytes':
      return {
        type: 'string',
        pattern: length === undefined ? '^([0-9a-fA-F]{2})*$' : `^[0-9a-fA-F]{${length * 2}}$`,
        description: 'hexadecimal digits',
      };
    case 'time':
      return { type: 'string', format: 'date-time', description: 'RFC 3339, such as 2026-01-31T08:00:00Z' };
    case 'number':
      return ofNumber();
  }
}

type Report = (message: string, ...keys: string[]) => void;

/** Scales and ranges that make no sense on any point. */
export function checkNumbers(raw: RawMap, report: Report): void {
  if (raw.scale === 0) report('a scale of 0 leaves nothing of the value', 'scale');
  const range = raw.range as readonly [number, number] | undefined;
  if (range !== undefined && range[0] >= range[1]) report(`expected the lowest value first; got [${range[0]}, ${range[1]}]`, 'range');
}

/** Limits of a write that make no sense on any point. */
export function checkWriteLimits(write: RawMap, rule: WriteRule, value: ValueKind, report: Report): void {
  for (const key of ['min', 'max', 'max_step'])
    if (write[key] !== undefined && value.kind !== 'number') report(`${key} needs a point whose value is a number`, 'write', key);
  if (rule.min !== undefined && rule.max !== undefined && rule.min > rule.max)
    report(`min ${rule.min} is above max ${rule.max}: nothing could be written`, 'write', 'min');
  if (rule.pulse !== undefined && value.kind !== 'bool') report('pulse needs a point that is true or false', 'write', 'pulse');
  if (rule.pulse !== undefined && rule.lease !== undefined) report('a pulse ends by itself; it needs no lease', 'write', 'lease');
  if (write.on_restart !== undefined && rule.pulse === undefined) report('on_restart belongs to a pulse', 'write', 'on_restart');
}
