import type { Point } from './point.ts';
import { escapeControls } from './text.ts';
import type { Value } from './value.ts';
import { Refusal } from './write.ts';

/** A whole number of more digits than any type holds is no number to calculate with. */
const MAX_DIGITS = 40;

/**
 * What an asker plainly means by a value: `"21.5"` is 21.5 and `"true"` is true; anything else that is not of the
 * point's kind is refused.
 *
 * @throws Refusal that says what would be accepted
 */
export function acceptValue(point: Point, input: unknown): Value {
  const kind = point.value;
  switch (kind.kind) {
    case 'bool':
      if (typeof input === 'boolean') return input;
      if (input === 'true' || input === 'false') return input === 'true';
      throw refused('true or false is expected', input);
    case 'number':
      return acceptNumber(input);
    case 'enum':
      if (typeof input === 'string' && kind.labels.includes(input)) return input;
      throw refused(`one of ${kind.labels.join(', ')} is expected`, input);
    case 'flags': {
      const known = (label: unknown): boolean =>
        typeof label === 'string' && (kind.labels.includes(label) || /^bit_([0-9]|[1-5][0-9]|6[0-3])$/.test(label));
      if (Array.isArray(input) && input.every(known)) return input as string[];
      throw refused(`a list of ${kind.labels.join(', ')} is expected`, input);
    }
    case 'text':
      if (typeof input === 'string') return input;
      throw refused('text is expected', input);
    case 'bytes':
      if (typeof input === 'string' && /^([0-9a-f]{2})*$/i.test(input)) return input.toLowerCase();
      throw refused('bytes as hexadecimal digits are expected', input);
    case 'time':
      if (
        typeof input === 'string' &&
        /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i.test(input) &&
        !Number.isNaN(Date.parse(input))
      )
        return input;
      throw refused('a time such as 2026-01-31T08:00:00Z is expected', input);
  }
}

function acceptNumber(input: unknown): number | bigint {
  if (typeof input === 'bigint') return input;
  if (typeof input === 'number' && Number.isFinite(input)) return input;
  if (typeof input === 'string') {
    const text = input.trim();
    if (/^[+-]?\d+$/.test(text) && text.length <= MAX_DIGITS) {
      const whole = BigInt(text);
      return Number.isSafeInteger(Number(whole)) ? Number(whole) : whole;
    }
    if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Number.isFinite(Number(text))) return Number(text);
    if (/^[+-]?(nan|inf(inity)?)$/i.test(text)) throw refused('a finite number is expected', input);
  }
  if (typeof input === 'number') throw refused('a finite number is expected', input);
  throw refused('a number is expected', input);
}

/** Limits of the map on a value of the right kind. @throws Refusal */
export function checkLimits(point: Point, value: Value): void {
  const rule = point.write;
  const size = typeof value === 'number' || typeof value === 'bigint' ? Number(value) : undefined;
  if (rule === undefined || size === undefined) return;
  const unit = point.unit === undefined ? '' : ` ${point.unit}`;
  const bounds = `accepted: ${rule.min === undefined ? 'anything' : `min ${rule.min}`}${rule.max === undefined ? ' upwards' : ` to max ${rule.max}`}${unit}`;
  if (rule.max !== undefined && size > rule.max) throw new Refusal('limits', `${value}${unit} is above max ${rule.max}${unit}; ${bounds}`);
  if (rule.min !== undefined && size < rule.min) throw new Refusal('limits', `${value}${unit} is below min ${rule.min}${unit}; ${bounds}`);
}

function refused(expected: string, input: unknown): Refusal {
  const shown = input === undefined ? 'nothing' : escapeControls(JSON.stringify(input) ?? String(input));
  return new Refusal('type', `${expected}, got ${shown.length > 80 ? `${shown.slice(0, 77)}…` : shown}`);
}
