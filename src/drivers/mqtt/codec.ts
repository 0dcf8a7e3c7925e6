import { ExpressionError } from '../../expression/expression.ts';
import { bad, good, type Reading, uncertain } from '../../model/sample.ts';
import { escapeControls } from '../../model/text.ts';
import { asNumber, type Value } from '../../model/value.ts';
import { Refusal } from '../../model/write.ts';
import { type MqttPoint, wholeLimits } from './point.ts';

const UTF8 = new TextDecoder('utf-8', { fatal: true });
const PLAIN_NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** What one message says of a point. Whatever it carries, it gives a value or a reason. */
export function decodePayload(point: MqttPoint, topic: string, payload: Buffer): Reading {
  if (payload.length === 0) return bad('not_available');
  let text: string;
  try {
    text = UTF8.decode(payload);
  } catch {
    return bad('decode_error');
  }
  const value = select(point, topic, text);
  if (value === undefined || value === null) return bad('decode_error');
  return typed(point, value);
}

/** The part of the message that the point is; undefined where there is none. */
function select({ expression, type }: MqttPoint, topic: string, text: string): unknown {
  const parsed = parseJson(text);
  if (expression === undefined) return type === 'string' && typeof parsed !== 'string' ? text : parsed;
  try {
    return expression.run(parsed, topic);
  } catch (error) {
    if (error instanceof ExpressionError) return undefined;
    throw error;
  }
}

function parseJson(text: string): unknown {
  // JSON.parse would round a whole number beyond 2^53.
  if (/^\s*-?\d{16,40}\s*$/.test(text)) return BigInt(text.trim());
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function typed(point: MqttPoint, value: unknown): Reading {
  if (point.value.kind === 'bool') return boolOf(point, value);
  if (point.type === 'string') return typeof value === 'object' ? bad('decode_error') : good(escapeControls(String(value)));
  const raw = numberOf(value);
  if (raw === undefined) return bad('decode_error');
  if (!Number.isFinite(Number(raw))) return bad('not_available');
  const limits = wholeLimits(point.type);
  if (limits !== undefined && (!isWhole(raw) || BigInt(raw) < limits[0] || BigInt(raw) > limits[1])) return bad('decode_error');
  if (point.codes !== undefined) {
    const label = point.codes.get(Number(raw));
    return label === undefined ? uncertain(raw, 'out_of_range') : good(label);
  }
  const result = point.linear.toEngineering(raw);
  const size = asNumber(result) ?? 0;
  const [low, high] = point.range ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  return size < low || size > high ? uncertain(result, 'out_of_range') : good(result);
}

const isWhole = (raw: number | bigint): boolean => typeof raw === 'bigint' || Number.isInteger(raw);

function boolOf({ on, off }: MqttPoint, value: unknown): Reading {
  if (on !== undefined || off !== undefined) {
    const text = String(value);
    if (text === on) return good(true);
    return text === off ? good(false) : bad('decode_error');
  }
  if (value === true || value === 'true' || value === 1 || value === 1n || value === '1') return good(true);
  if (value === false || value === 'false' || value === 0 || value === 0n || value === '0') return good(false);
  return bad('decode_error');
}

function numberOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (typeof value === 'string' && PLAIN_NUMBER.test(value.trim())) return Number(value);
  return undefined;
}

/** The payload that says a value. @throws Refusal where the point can not have it */
export function encodePayload(point: MqttPoint, value: Value): string {
  if (point.value.kind === 'bool') return value === true ? (point.on ?? 'true') : (point.off ?? 'false');
  if (point.type === 'string') return String(value);
  if (point.codes !== undefined) return String([...point.codes].find(([, label]) => label === value)?.[0] ?? '');
  const number = value as number | bigint;
  const limits = wholeLimits(point.type);
  if (limits === undefined) return String(point.linear.toRawFloat(number));
  const answer = point.linear.toRaw(number);
  if (!('raw' in answer)) {
    const [a, b] = [answer.below, answer.above].map(raw => point.linear.toEngineering(raw)).sort((x, y) => Number(x) - Number(y));
    throw new Refusal('grid', `${String(value)} is not representable; nearest ${a} and ${b}`);
  }
  if (answer.raw < limits[0] || answer.raw > limits[1]) {
    const [a, b] = limits.map(end => point.linear.toEngineering(end));
    throw new Refusal('type', `${point.type} holds ${a} to ${b}`);
  }
  return answer.raw.toString();
}
