import { parseDuration } from '../model/duration.ts';
import { ArgumentError } from './tool.ts';

/** A point in time as it is asked for: RFC 3339, or how long ago, `-15m`. @throws ArgumentError */
export function momentOf(text: string, name: string, now: number): number {
  const ago = text.startsWith('-') ? parseDuration(text.slice(1)) : undefined;
  const moment = ago === undefined ? Date.parse(text) : now - ago;
  if (Number.isFinite(moment) && (ago !== undefined || /^\d{4}-\d\d-\d\dT/.test(text))) return moment;
  throw new ArgumentError(`${name}: a time such as 2026-01-31T08:00:00Z or -15m is expected, got ${JSON.stringify(text)}`);
}
