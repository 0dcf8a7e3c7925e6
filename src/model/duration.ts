const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;

/** In milliseconds. */
export const DAY = 24 * UNITS.h;

export const DURATION_PATTERN = '^\\d+(\\.\\d+)?(ms|s|m|h)$';

/** `250ms`, `1s`, `5m`, `1h` in milliseconds; undefined for anything else. */
export function parseDuration(text: unknown): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(String(text));
  return match === null ? undefined : Number(match[1]) * UNITS[match[2] as keyof typeof UNITS];
}

/** A length of time for a person: `340 ms`, `1.2 s`, `3 min`. */
export function showDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${Number((ms / 1000).toFixed(1))} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return `${Number((ms / 3_600_000).toFixed(1))} h`;
}
