import { shortest } from '../../model/decimal.ts';
import { integerLimits } from '../../model/integer.ts';
import type { ValueKind } from '../../model/point.ts';

/**
 * The data types of a register map: how a value's bytes, already put into big-endian order, become a raw value and
 * back. A new type is one entry here.
 */

export type Raw = number | bigint | string;

export interface DataType {
  /** Registers; undefined where the point's `length` decides. */
  readonly registers: number | undefined;
  /** How its values are shown and which other keys make sense with it. */
  readonly family: 'bool' | 'integer' | 'float' | 'bcd' | 'string' | 'bytes' | 'time';
  /** Lowest and highest raw value; absent for text. */
  readonly limits?: readonly [bigint, bigint] | readonly [number, number];
  /** undefined: the bytes are no such value. */
  decode(bytes: Buffer): Raw | undefined;
  encode(raw: Raw, bytes: Buffer): void;
}

function integer(bits: 8 | 16 | 32 | 64, signed: boolean): DataType {
  const size = bits / 8;
  return {
    registers: Math.max(1, bits / 16),
    family: 'integer',
    limits: integerLimits(bits, signed),
    decode: bytes => {
      if (bits === 64) return signed ? bytes.readBigInt64BE(0) : bytes.readBigUInt64BE(0);
      return signed ? bytes.readIntBE(0, size) : bytes.readUIntBE(0, size);
    },
    encode: (raw, bytes) => {
      if (bits === 64) bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(raw)), 0);
      else bytes.writeUIntBE(Number(BigInt.asUintN(bits, BigInt(raw))), 0, size);
    },
  };
}

/** IEEE 754 binary16. */
export function readFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The nearest binary16, ties to even. */
export function writeFloat16(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 2 ** -24)));
  const step = 2 ** (exponent - 10);
  const steps = size / step;
  let rounded = Math.floor(steps);
  const rest = steps - rounded;
  if (rest > 0.5 || (rest === 0.5 && rounded % 2 === 1)) rounded += 1;
  const result = rounded * step;
  if (result === 0) return sign;
  const e = Math.floor(Math.log2(result));
  if (e < -14) return sign | Math.round(result / 2 ** -24);
  return sign | ((e + 15) << 10) | Math.round((result / 2 ** e - 1) * 1024);
}

const roundTrip16 = (value: number): number => readFloat16(writeFloat16(value));

const FLOAT32_MAX = 3.4028234663852886e38;

function bcd(digits: 4 | 8): DataType {
  return {
    registers: digits / 4,
    family: 'bcd',
    limits: [0n, 10n ** BigInt(digits) - 1n],
    decode: bytes => {
      const text = bytes.toString('hex');
      return /^\d+$/.test(text) ? Number(text) : undefined;
    },
    encode: (raw, bytes) => void bytes.write(String(raw).padStart(digits, '0'), 'hex'),
  };
}

/** Latest moment that ECMAScript can name: 8.64e15 ms either side of 1970. */
const LAST_MOMENT = 8_640_000_000_000_000;

function time(unit: 's' | 'ms'): DataType {
  const perUnit = unit === 's' ? 1000 : 1;
  const limits: readonly [bigint, bigint] = unit === 's' ? [0n, 0xffff_ffffn] : [0n, BigInt(LAST_MOMENT)];
  return {
    registers: unit === 's' ? 2 : 4,
    family: 'time',
    limits,
    decode: bytes => {
      const count = unit === 's' ? bytes.readUInt32BE(0) : Number(bytes.readBigUInt64BE(0));
      if (count * perUnit > LAST_MOMENT) return undefined;
      const text = new Date(count * perUnit).toISOString();
      return unit === 's' ? text.replace('.000Z', 'Z') : text;
    },
    encode: (raw, bytes) => {
      const count = Date.parse(String(raw)) / perUnit;
      if (unit === 's') bytes.writeUInt32BE(count, 0);
      else bytes.writeBigUInt64BE(BigInt(count), 0);
    },
  };
}

export const DATA_TYPES = {
  bool: {
    registers: 1,
    family: 'bool',
    decode: bytes => bytes.readUInt16BE(0),
    encode: (raw, bytes) => void bytes.writeUInt16BE(Number(raw), 0),
  },
  int8: integer(8, true),
  uint8: integer(8, false),
  int16: integer(16, true),
  uint16: integer(16, false),
  int32: integer(32, true),
  uint32: integer(32, false),
  int64: integer(64, true),
  uint64: integer(64, false),
  float16: {
    registers: 1,
    family: 'float',
    limits: [-65504, 65504],
    decode: bytes => shortest(readFloat16(bytes.readUInt16BE(0)), 6, roundTrip16),
    encode: (raw, bytes) => void bytes.writeUInt16BE(writeFloat16(Number(raw)), 0),
  },
  float32: {
    registers: 2,
    family: 'float',
    limits: [-FLOAT32_MAX, FLOAT32_MAX],
    decode: bytes => shortest(bytes.readFloatBE(0), 10, Math.fround),
    encode: (raw, bytes) => void bytes.writeFloatBE(Number(raw), 0),
  },
  float64: {
    registers: 4,
    family: 'float',
    limits: [-Number.MAX_VALUE, Number.MAX_VALUE],
    decode: bytes => bytes.readDoubleBE(0),
    encode: (raw, bytes) => void bytes.writeDoubleBE(Number(raw), 0),
  },
  bcd16: bcd(4),
  bcd32: bcd(8),
  string: { registers: undefined, family: 'string', decode: () => undefined, encode: () => undefined },
  bytes: {
    registers: undefined,
    family: 'bytes',
    decode: bytes => bytes.toString('hex'),
    encode: (raw, bytes) => void bytes.write(String(raw), 'hex'),
  },
  unix_s: time('s'),
  unix_ms: time('ms'),
} satisfies Record<string, DataType>;

/** What kind of value a family's types are. @param whole a number without fraction after scaling */
export function kindOfFamily(family: DataType['family'], whole: boolean): ValueKind {
  switch (family) {
    case 'bool':
      return { kind: 'bool' };
    case 'string':
      return { kind: 'text' };
    case 'bytes':
      return { kind: 'bytes' };
    case 'time':
      return { kind: 'time' };
    case 'float':
      return { kind: 'number', integer: false };
    case 'integer':
    case 'bcd':
      return { kind: 'number', integer: whole };
  }
}

export type TypeName = keyof typeof DATA_TYPES;
export const TYPE_NAMES = Object.keys(DATA_TYPES) as TypeName[];

/** How the bytes of a point are laid out on the wire, seen as the letters of a 32-bit value. */
export const ORDERS = ['ABCD', 'CDAB', 'BADC', 'DCBA'] as const;
export type Order = (typeof ORDERS)[number];

/** Encodings of text in registers. */
export const ENCODINGS = ['ascii', 'latin1', 'utf8'] as const;
export type Encoding = (typeof ENCODINGS)[number];

/**
 * Between wire order and big-endian order; the same permutation both ways. Text keeps the order of its words,
 * whatever `order` says about them: only its bytes may be swapped.
 */
export function reorder(bytes: Buffer, order: Order, text: boolean): Buffer {
  if (order === 'ABCD') return bytes;
  const result = Buffer.from(bytes);
  if (order === 'BADC' || order === 'DCBA') result.swap16();
  if (!text && (order === 'CDAB' || order === 'DCBA') && result.length > 2) {
    const words = Buffer.from(result);
    for (let i = 0; i < words.length; i += 2) words.copy(result, words.length - 2 - i, i, i + 2);
  }
  return result;
}
