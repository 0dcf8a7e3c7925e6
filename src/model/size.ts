const UNITS: Readonly<Record<string, number>> = { B: 1, kB: 1000, MB: 1_000_000, GB: 1_000_000_000 };

export const SIZE_PATTERN = '^\\d+(B|kB|MB|GB)$';

/** Bytes of `64kB`; undefined for what is no size. */
export function parseSize(text: unknown): number | undefined {
  const match = /^(\d+)(B|kB|MB|GB)$/.exec(String(text));
  return match === null ? undefined : Number(match[1]) * (UNITS[match[2] ?? ''] ?? 1);
}
