import { ExpressionError } from '../../expression/expression.ts';
import type { PayloadExpression } from '../../expression/payload.ts';
import type { Point } from '../../model/point.ts';
import { bad, good, type Reading, uncertain } from '../../model/sample.ts';
import { escapeControls } from '../../model/text.ts';
import { asNumber, type Value } from '../../model/value.ts';
import { Refusal } from '../../model/write.ts';
import type { Message } from './message.ts';
import { type Binary, type Conversion, type MqttPoint, wholeLimits } from './point.ts';

const PLAIN_NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/** How devices write that there is no number. */
const NO_NUMBER = /^[+-]?(nan|inf(inity)?)$/i;
/** A JSON number that is no longer than a decimal; text of the field is not read further. */
const MAX_NUMBER = 64;

/** What one message says of a point. Whatever it carries, it gives a value or a reason. */
export function decodePayload(point: MqttPoint, message: Message): Reading {
  if (message.oversize) return bad('decode_error');
  if (message.payload.length === 0) return bad('not_available');
  if (point.binary !== undefined) return decodeBytes(point, point.binary, message);
  if (message.text === undefined) return bad('decode_error');
  const value = select(point, message);
  // JSON's null is the sender's own word for no value.
  if (value === null) return bad('not_available');
  return value === undefined ? bad('decode_error') : convert(point, value);
}

/** The moment that the message itself names, in milliseconds since 1970; undefined where it names none. */
export function sourceTimeOf(expression: PayloadExpression, message: Message): number | undefined {
  const said = evaluate(expression, message);
  const time =
    said instanceof Date
      ? said.getTime()
      : typeof said === 'string' && !PLAIN_NUMBER.test(said)
        ? Date.parse(said)
        : epochOf(Number(said ?? Number.NaN));
  return Number.isFinite(time) && Math.abs(time) <= 8.64e15 && time > 0 ? time : undefined;
}

/** Seconds, milliseconds, microseconds or nanoseconds since 1970: which, the size says. */
function epochOf(count: number): number {
  if (count < 1e11) return count * 1000;
  if (count < 1e14) return count;
  return count < 1e17 ? count / 1000 : count / 1e6;
}

/** The part of the message that the point is; undefined where there is none. */
function select({ expression, type }: MqttPoint, message: Message): unknown {
  if (expression !== undefined) return evaluate(expression, message);
  const { content } = message;
  return type === 'string' && typeof content !== 'string' ? message.text : content;
}

function evaluate(expression: PayloadExpression, message: Message): unknown {
  try {
    return expression.run({ payload: message.content, topic: message.topic });
  } catch (error) {
    if (error instanceof ExpressionError) return undefined;
    throw error;
  }
}

function decodeBytes(point: MqttPoint, binary: Binary, message: Message): Reading {
  const bytes = bytesOf(point, binary, message);
  if (bytes === undefined) return bad('decode_error');
  const { at, isAll, size, codec } = binary;
  if ((isAll && size !== undefined && bytes.length !== size) || at >= bytes.length || (size !== undefined && at + size > bytes.length))
    return bad('decode_error');
  const part = bytes.subarray(at, size === undefined ? undefined : at + size);
  if (codec === undefined) return good(part.toString('hex'));
  if (part.length === 1) return codec.decode([part.readUInt8(0)]);
  const padded = part.length % 2 === 0 ? part : Buffer.concat([part, Buffer.alloc(1)]);
  return codec.decode(Array.from({ length: padded.length / 2 }, (_, i) => padded.readUInt16BE(i * 2)));
}

function bytesOf(point: MqttPoint, { encoding }: Binary, message: Message): Buffer | undefined {
  if (encoding === 'binary') return message.payload;
  if (message.text === undefined) return undefined;
  const text = point.expression === undefined ? message.text.trim() : evaluate(point.expression, message);
  if (typeof text !== 'string') return undefined;
  const fits = encoding === 'hex' ? /^([0-9a-fA-F]{2})+$/ : /^[A-Za-z0-9+/_-]+={0,2}$/;
  return fits.test(text) ? Buffer.from(text, encoding) : undefined;
}

/** A value as a message or a metric carries it, as the point shows it. */
export function convert(point: Point & Conversion, value: unknown): Reading {
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

function boolOf({ on, off }: Conversion, value: unknown): Reading {
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
  if (typeof value !== 'string' || value.length > MAX_NUMBER) return undefined;
  const text = value.trim();
  if (/^-?\d{16,}$/.test(text)) return BigInt(text);
  if (NO_NUMBER.test(text)) return Number.NaN;
  return PLAIN_NUMBER.test(text) ? Number(text) : undefined;
}

/** The raw value that stands for an engineering one. @throws Refusal where the point can not have it */
export function rawOf(point: Point & Conversion, value: Value): boolean | number | bigint | string {
  if (point.value.kind === 'bool') return value === true ? (point.on ?? true) : (point.off ?? false);
  if (point.type === 'string') return String(value);
  if (point.codes !== undefined) return [...point.codes].find(([, label]) => label === value)?.[0] ?? 0;
  const number = value as number | bigint;
  const limits = wholeLimits(point.type);
  if (limits === undefined) return point.linear.toRawFloat(number);
  const answer = point.linear.toRaw(number);
  if (!('raw' in answer)) {
    const [a, b] = [answer.below, answer.above].map(raw => point.linear.toEngineering(raw)).sort((x, y) => Number(x) - Number(y));
    throw new Refusal('grid', `${String(value)} is not representable; nearest ${a} and ${b}`);
  }
  if (answer.raw < limits[0] || answer.raw > limits[1]) {
    const [a, b] = limits.map(end => point.linear.toEngineering(end));
    throw new Refusal('type', `${point.type} holds ${a} to ${b}`);
  }
  return answer.raw;
}

/** The payload that says a value. @throws Refusal where the point can not have it */
export function encodePayload(point: MqttPoint, value: Value): string | Buffer {
  if (point.binary !== undefined) return encodeBytes(point.binary, value);
  const raw = rawOf(point, value);
  const template = point.publish?.payload;
  if (template === undefined) return String(raw);
  try {
    // Whole numbers are ints in CEL, others doubles.
    const said = template.run({ value: typeof raw === 'number' && wholeLimits(point.type) !== undefined ? BigInt(raw) : raw });
    return typeof said === 'string' ? said : jsonOf(said);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw new Refusal('type', `the payload expression makes nothing of ${String(raw)}: ${error.message}`);
  }
}

function jsonOf(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Date) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  return `{${Object.entries(value)
    .map(([key, item]) => `${JSON.stringify(key)}:${jsonOf(item)}`)
    .join(',')}}`;
}

function encodeBytes({ encoding, codec }: Binary, value: Value): string | Buffer {
  const bytes = codec === undefined ? Buffer.from(String(value), 'hex') : wordsOf(codec, value);
  return encoding === 'binary' ? bytes : bytes.toString(encoding);
}

function wordsOf(codec: NonNullable<Binary['codec']>, value: Value): Buffer {
  const encoded = codec.encode(value);
  if ('mask' in encoded) return Buffer.of(encoded.mask.or);
  const bytes = Buffer.alloc(encoded.registers.length * 2);
  for (const [i, word] of encoded.registers.entries()) bytes.writeUInt16BE(word, i * 2);
  return codec.spec.length === undefined ? bytes : bytes.subarray(0, codec.spec.length);
}
