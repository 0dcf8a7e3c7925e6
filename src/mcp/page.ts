import type { Page } from './served.ts';

/** One page of a list, with the cursor of the next. Cursors are opaque to clients. */
export function pageOf<T>(items: readonly T[], size: number, cursor: string | undefined): Page<T> | undefined {
  const start = cursor === undefined ? 0 : decode(cursor);
  if (start === undefined || start > items.length) return undefined;
  const end = start + size;
  return { items: items.slice(start, end), ...(end < items.length && { nextCursor: encode(end) }) };
}

const encode = (offset: number): string => Buffer.from(`o${offset}`).toString('base64url');

function decode(cursor: string): number | undefined {
  const match = /^o(\d{1,9})$/.exec(Buffer.from(cursor, 'base64url').toString());
  return match === null ? undefined : Number(match[1]);
}
