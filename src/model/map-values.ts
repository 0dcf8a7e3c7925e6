import { parseDuration } from './duration.ts';
import type { Deadband, WriteRule } from './point.ts';
import type { RawMap } from './protocol.ts';
import type { Role } from './role.ts';

/** A point's deadband: a number in engineering units, or a share such as `2%`. */
export function deadbandOf(raw: unknown): Deadband {
  return typeof raw === 'string' ? { percent: Number(raw.slice(0, -1)) } : { absolute: Number(raw ?? 0) };
}

/** What a point's `write:` entry allows, whatever protocol carries it. */
export function writeRule(raw: RawMap): WriteRule {
  const verify = raw.verify === 'off' ? undefined : (parseDuration(raw.verify ?? '2s') ?? 2000);
  return {
    ...(raw.min !== undefined && { min: Number(raw.min) }),
    ...(raw.max !== undefined && { max: Number(raw.max) }),
    ...(raw.max_step !== undefined && { maxStep: Number(raw.max_step) }),
    role: (raw.role ?? 'operator') as Role,
    minInterval: parseDuration(raw.min_interval ?? '0ms') ?? 0,
    ...(verify !== undefined && { verify }),
  };
}
