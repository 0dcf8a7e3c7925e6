import type { ValueKind } from '../../model/point.ts';
import type { RawMap } from '../../model/protocol.ts';
import { Codec, invalidPatterns } from '../modbus/codec.ts';
import { DATA_TYPES, type DataType, ENCODINGS, type Encoding, kindOfFamily, type Order, type TypeName } from '../modbus/types.ts';
import type { Binary } from './point.ts';

type Report = (message: string, ...keys: string[]) => void;

const isEncoding = (text: unknown): text is Encoding => (ENCODINGS as readonly unknown[]).includes(text);

/** How a point's value lies in bytes; the codec is that of registers, whose words these bytes are. */
export function binaryOf(raw: RawMap, type: string, isWritable: boolean, report: Report): Binary {
  const text = isEncoding(raw.encoding) ? raw.encoding : undefined;
  if (text !== undefined && type !== 'string')
    report(`only a string has the encoding ${text}; for ${type} it is binary, hex or base64`, 'encoding');
  const encoding = text === undefined ? ((raw.encoding ?? 'binary') as Binary['encoding']) : 'binary';
  const place = { encoding, at: Number(raw.at ?? 0), isAll: raw.at === undefined };
  const length = raw.length as number | undefined;
  const data: DataType = DATA_TYPES[type as TypeName];
  const isSized = type !== 'string' && type !== 'bytes';
  if (isSized && length !== undefined) report(`only string and bytes have a length; the width of ${type} is fixed`, 'length');
  if (raw.bit !== undefined && type !== 'bool') report(`one bit has the type bool, not ${type}`, 'type');
  if (type === 'bool' && Number(raw.bit ?? 0) > 7) report('a bool is a bit of one byte, 0 to 7', 'bit');
  if (raw.enum !== undefined && raw.flags !== undefined) report('a point has enum or flags, not both', 'flags');
  if (raw.flags !== undefined && data.family !== 'integer') report(`flags needs a whole-number type, not ${type}`, 'flags');
  if (type === 'bytes' || data.family === 'bytes') return { ...place, size: length, codec: undefined };
  if (type === 'string' && length === undefined && isWritable)
    report('a string of bytes that is written needs its length in bytes', 'length');
  const isByte = type.endsWith('int8') || type === 'bool';
  const registers = data.registers ?? Math.ceil((length ?? 2) / 2);
  const bits = isByte ? 8 : registers * 16;
  const labels = <K>(map: unknown, key: (code: string) => K): ReadonlyMap<K, string> | undefined =>
    map === undefined ? undefined : new Map(Object.entries(map as Record<string, string>).map(([code, label]) => [key(code), label]));
  const codes = labels(raw.enum, code => BigInt(code));
  const flags = labels(raw.flags, Number);
  for (const bit of flags?.keys() ?? []) if (bit >= bits) report(`${type} has the bits 0 to ${bits - 1}`, 'flags', String(bit));
  const codec = new Codec({
    type: type as TypeName,
    order: (raw.order ?? 'ABCD') as Order,
    registers,
    byte: 'low',
    ...(type === 'bool' && { bit: Number(raw.bit ?? 0) }),
    ...(length !== undefined && { length }),
    encoding: text ?? 'utf8',
    scale: raw.scale === 0 ? 1 : Number(raw.scale ?? 1),
    offset: Number(raw.offset ?? 0),
    scaled: false,
    invalid: ((raw.invalid ?? []) as (number | string)[]).flatMap(entry => invalidPatterns(entry, bits)),
    ...(raw.range !== undefined && { range: raw.range as readonly [number, number] }),
    ...(codes !== undefined && { enum: codes }),
    ...(flags !== undefined && { flags }),
    ...(raw.unit !== undefined && { unit: String(raw.unit) }),
  });
  return { ...place, size: isSized ? (isByte ? 1 : registers * 2) : length, codec };
}

export function kindOfBinary(raw: RawMap, type: string): ValueKind {
  if (raw.enum !== undefined) return { kind: 'enum', labels: Object.values(raw.enum as Record<string, string>) };
  if (raw.flags !== undefined) return { kind: 'flags', labels: Object.values(raw.flags as Record<string, string>) };
  const whole = Number.isInteger(raw.scale ?? 1) && Number.isInteger(raw.offset ?? 0);
  return kindOfFamily(DATA_TYPES[type as TypeName].family, whole);
}
