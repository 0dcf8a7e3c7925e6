import { Linear } from '../../model/decimal.ts';
import { bad, good, type Reading, uncertain } from '../../model/sample.ts';
import { escapeControls } from '../../model/text.ts';
import { asNumber, showValue, type Value } from '../../model/value.ts';
import { Refusal } from '../../model/write.ts';
import { DATA_TYPES, type DataType, type Encoding, type Order, type Raw, reorder, type TypeName } from './types.ts';

/** What of a point's map entry says how its registers are read. */
export interface CodecSpec {
  readonly type: TypeName;
  readonly order: Order;
  readonly registers: number;
  readonly byte: 'low' | 'high';
  readonly bit?: number;
  readonly length?: number;
  readonly encoding: Encoding;
  readonly scale: number;
  readonly offset: number;
  readonly scaled: boolean;
  readonly invalid: readonly bigint[];
  readonly range?: readonly [number, number];
  readonly enum?: ReadonlyMap<bigint, string>;
  readonly flags?: ReadonlyMap<number, string>;
  readonly unit?: string;
}

/** Scale factors as SunSpec's sunssf: a power of ten from -10 to 10. */
const SCALE_FACTORS: readonly Linear[] = Array.from(
  { length: 21 },
  (_, i) => new Linear(i < 10 ? { units: 1n, places: 10 - i } : { units: 10n ** BigInt(i - 10), places: 0 }),
);

export function scaleFactor(exponent: Value): Linear | undefined {
  return typeof exponent === 'number' && Number.isInteger(exponent) ? SCALE_FACTORS[exponent + 10] : undefined;
}

/**
 * Part of a register that a point occupies: its other bits belong to somebody else and are kept by a write.
 * MODBUS Application Protocol V1.1b3, 6.16: result = (current AND and) OR (or AND NOT and).
 */
export interface Mask {
  readonly and: number;
  readonly or: number;
}

export type Encoded = { readonly registers: readonly number[] } | { readonly mask: Mask };

/** Between the registers of one point and its engineering value. Pure; made once per point. */
export class Codec {
  readonly spec: CodecSpec;
  private readonly type: DataType;
  private readonly linear: Linear;
  private readonly codes: ReadonlyMap<string, bigint>;

  constructor(spec: CodecSpec) {
    this.spec = spec;
    this.type = DATA_TYPES[spec.type];
    this.linear = new Linear(spec.scale, spec.offset);
    this.codes = new Map([...(spec.enum ?? [])].map(([code, label]) => [label, code]));
  }

  /**
   * @param registers the words of the point as they came, first address first
   * @param factor replaces scale and offset where another point holds the scale factor
   */
  decode(registers: readonly number[], factor?: Linear): Reading {
    const bytes = this.bytesOf(registers);
    if (this.spec.invalid.length > 0 && this.spec.invalid.includes(unsigned(bytes))) return bad('not_available');
    if (this.spec.type === 'string') return good(this.text(bytes));
    const raw = this.type.decode(bytes);
    if (raw === undefined) return bad('decode_error');
    if (typeof raw === 'string') return good(raw);
    if (this.type.family === 'bool') return good(((Number(raw) >> (this.spec.bit ?? 0)) & 1) === 1);
    if (!Number.isFinite(Number(raw))) return bad('not_available');
    if (this.isInvalidNumber(raw)) return bad('not_available');
    if (this.spec.enum !== undefined) {
      const label = this.spec.enum.get(BigInt(raw));
      return label === undefined ? uncertain(new Linear().toEngineering(raw), 'out_of_range') : good(label);
    }
    if (this.spec.flags !== undefined) return good(this.labels(BigInt(raw)));
    const value = (factor ?? this.linear).toEngineering(raw);
    const [low, high] = this.spec.range ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    const size = asNumber(value) ?? 0;
    return size < low || size > high ? uncertain(value, 'out_of_range') : good(value);
  }

  /**
   * The registers of an engineering value, exactly, or a refusal that names what would be accepted.
   *
   * @throws Refusal
   */
  encode(value: Value, factor?: Linear): Encoded {
    const bytes = Buffer.alloc(this.spec.type.endsWith('int8') ? 1 : this.spec.registers * 2);
    if (this.spec.bit !== undefined) {
      const bit = 1 << this.spec.bit;
      return { mask: this.swapMask({ and: ~bit & 0xffff, or: value === true ? bit : 0 }) };
    }
    this.type.encode(this.rawOf(value, factor), bytes);
    if (this.spec.type === 'string') this.writeText(String(value), bytes);
    if (bytes.length === 1) {
      const byte = bytes.readUInt8(0);
      return { mask: this.spec.byte === 'high' ? { and: 0x00ff, or: byte << 8 } : { and: 0xff00, or: byte } };
    }
    const wire = reorder(bytes, this.spec.order, this.isText);
    return { registers: Array.from({ length: this.spec.registers }, (_, i) => wire.readUInt16BE(i * 2)) };
  }

  /**
   * What will be read once this value is written.
   *
   * @throws Refusal where it can not be written exactly, or would read as no value
   */
  canonical(value: Value, factor?: Linear): Value {
    const encoded = this.encode(value, factor);
    const reading = this.decode('mask' in encoded ? [encoded.mask.or] : encoded.registers, factor);
    if (reading.quality === 'bad')
      throw new Refusal('type', `${showValue(value)} is the device's sign for no reading and can not be written`);
    return reading.value;
  }

  /** Lowest and highest engineering value that the type can hold; undefined for what is no number. */
  get limits(): readonly [number | bigint | string, number | bigint | string] | undefined {
    const limits = this.type.limits;
    if (limits === undefined || this.type.family === 'time') return undefined;
    const ends = limits.map(end => this.linear.toEngineering(end)) as [number, number];
    return Number(ends[0]) <= Number(ends[1]) ? [ends[0], ends[1]] : [ends[1], ends[0]];
  }

  /** The distance between two neighbouring values, where the grid passes through zero. */
  get step(): number | undefined {
    if (this.isFloat) return undefined;
    return this.linear.throughZero ? Math.abs(this.spec.scale) : undefined;
  }

  get isFloat(): boolean {
    return this.type.family === 'float';
  }

  private get isText(): boolean {
    return this.type.family === 'string' || this.type.family === 'bytes';
  }

  private bytesOf(registers: readonly number[]): Buffer {
    const bytes = Buffer.alloc(registers.length * 2);
    for (const [i, word] of registers.entries()) bytes.writeUInt16BE(word, i * 2);
    const ordered = reorder(bytes, this.spec.order, this.isText);
    if (this.spec.type.endsWith('int8')) return this.spec.byte === 'high' ? ordered.subarray(0, 1) : ordered.subarray(1, 2);
    return this.isText && this.spec.length !== undefined ? ordered.subarray(0, this.spec.length) : ordered;
  }

  private swapMask(mask: Mask): Mask {
    if (this.spec.order === 'ABCD' || this.spec.order === 'CDAB') return mask;
    const swap = (word: number): number => ((word & 0xff) << 8) | (word >> 8);
    return { and: swap(mask.and), or: swap(mask.or) };
  }

  /** `invalid` may also name the number that a float or BCD value shows, such as -9999. */
  private isInvalidNumber(raw: number | bigint): boolean {
    if (this.spec.invalid.length === 0 || this.type.family === 'integer') return false;
    return Number.isInteger(Number(raw)) && this.spec.invalid.includes(BigInt(raw));
  }

  private labels(raw: bigint): string[] {
    const labels: string[] = [];
    for (let bit = 0; raw >> BigInt(bit) > 0n; bit++) {
      if ((raw >> BigInt(bit)) & 1n) labels.push(this.spec.flags?.get(bit) ?? `bit_${bit}`);
    }
    return labels;
  }

  private text(bytes: Buffer): string {
    const encoding = this.spec.encoding;
    // 'ascii' in Node clears the eighth bit, which would make another letter of it: latin1 shows what is there.
    const text = bytes.toString(encoding === 'ascii' ? 'latin1' : encoding);
    const end = text.indexOf('\0');
    const trimmed = (end < 0 ? text : text.slice(0, end)).replace(/[ \0]+$/, '');
    return escapeControls(encoding === 'ascii' ? trimmed.replace(/[\u0080-\u00ff]/g, '\ufffd') : trimmed);
  }

  private writeText(text: string, bytes: Buffer): void {
    const { encoding, length = bytes.length } = this.spec;
    const highest = encoding === 'ascii' ? 0x7f : encoding === 'latin1' ? 0xff : 0x10ffff;
    const foreign = [...text].find(c => (c.codePointAt(0) ?? 0) > highest || (c.codePointAt(0) ?? 0) < 0x20);
    if (foreign !== undefined) {
      throw new Refusal(
        'type',
        `the text holds the character ${escapeControls(JSON.stringify(foreign))}, which is not printable ${encoding}`,
      );
    }
    const encoded = Buffer.from(text, encoding);
    if (encoded.length > length) throw new Refusal('type', `the text is ${encoded.length} bytes long, the point holds ${length}`);
    encoded.copy(bytes);
  }

  private rawOf(value: Value, factor: Linear | undefined): Raw {
    if (this.spec.enum !== undefined) return this.codes.get(String(value)) ?? 0n;
    if (this.spec.flags !== undefined) return this.flagBits(Array.isArray(value) ? value : []);
    switch (this.type.family) {
      case 'bool':
        return value === true ? 1 : 0;
      case 'string':
        return '';
      case 'bytes': {
        const size = (this.spec.length ?? 0) * 2;
        if (String(value).length !== size)
          throw new Refusal('type', `${this.spec.length} bytes are expected, as ${size} hexadecimal digits`);
        return String(value);
      }
      case 'time':
        return this.moment(String(value));
      case 'float':
        return this.rawFloat(value as number | bigint | string, factor ?? this.linear);
      case 'integer':
      case 'bcd':
        return this.rawInteger(value as number | bigint | string, factor ?? this.linear);
    }
  }

  private flagBits(labels: readonly string[]): bigint {
    const bits = new Map([...(this.spec.flags ?? [])].map(([bit, label]) => [label, bit]));
    return labels.reduce((raw, label) => raw | (1n << BigInt(bits.get(label) ?? Number(label.slice(4)))), 0n);
  }

  private moment(text: string): string {
    const ms = Date.parse(text);
    const [low, high] = this.type.limits as readonly [bigint, bigint];
    const perUnit = this.spec.type === 'unix_s' ? 1000 : 1;
    if (ms % perUnit !== 0) throw new Refusal('type', `${this.spec.type} holds whole seconds`);
    if (ms < Number(low) * perUnit || ms > Number(high) * perUnit) {
      const end = new Date(Number(high) * perUnit).toISOString();
      throw new Refusal('type', `${this.spec.type} holds 1970-01-01T00:00:00Z to ${end}`);
    }
    return text;
  }

  private rawInteger(value: number | bigint | string, linear: Linear): bigint {
    const answer = linear.toRaw(value);
    const [low, high] = this.type.limits as readonly [bigint, bigint];
    const nearest = 'raw' in answer ? [answer.raw] : [answer.below, answer.above];
    if (nearest.some(raw => raw < low || raw > high)) throw new Refusal('type', this.holds(linear));
    if ('raw' in answer) return answer.raw;
    const [a, b] = nearest.map(raw => linear.toEngineering(raw)).sort((x, y) => Number(x) - Number(y));
    throw new Refusal('grid', `${String(value)} is not representable; nearest ${a} and ${b}`);
  }

  /**
   * A float point takes the nearest float, as every such device does: within a millionth for any value with a
   * fraction. What would visibly become another number (2049 in a float16) is refused with its neighbours.
   */
  private rawFloat(value: number | bigint | string, linear: Linear): number {
    const raw = linear.toRawFloat(value);
    const [low, high] = this.type.limits as readonly [number, number];
    if (!(raw >= low && raw <= high)) throw new Refusal('type', this.holds(linear));
    const bytes = Buffer.alloc(this.spec.registers * 2);
    this.type.encode(raw, bytes);
    const stored = Number(this.type.decode(bytes));
    const shown = Number(linear.toEngineering(stored));
    const asked = Number(value);
    const close = Math.abs(shown - asked) <= Math.abs(asked) * 1e-6 && !Number.isInteger(asked);
    if (shown === asked || close) return raw;
    const other = Number(linear.toEngineering(this.neighbour(stored, stored < raw)));
    const [a, b] = [shown, other].sort((x, y) => x - y);
    throw new Refusal('grid', `${String(value)} is not representable; nearest ${a} and ${b}`);
  }

  private neighbour(stored: number, above: boolean): number {
    const bytes = Buffer.alloc(this.spec.registers * 2);
    this.type.encode(stored, bytes);
    const pattern = unsigned(bytes);
    const outward = above === stored >= 0;
    const next = (pattern + (outward ? 1n : -1n)).toString(16).padStart(bytes.length * 2, '0');
    return Number(this.type.decode(Buffer.from(next.slice(-bytes.length * 2), 'hex')));
  }

  private holds(linear: Linear): string {
    const unit = this.spec.unit === undefined ? '' : ` ${this.spec.unit}`;
    const [low, high] = (this.type.limits ?? [0, 0]).map(end => linear.toEngineering(end));
    const [a, b] = Number(low) <= Number(high) ? [low, high] : [high, low];
    return `${this.spec.type} holds ${a} to ${b}${linear.identity ? '' : `${unit} at its scale`}`;
  }
}

function unsigned(bytes: Buffer): bigint {
  return bytes.length === 0 || bytes.length > 8 ? -1n : BigInt(`0x${bytes.toString('hex')}`);
}

/** What an `invalid` entry means: the number itself, and for a negative one its bits in two's complement. */
export function invalidPatterns(entry: number | string, bits: number): bigint[] {
  const value = BigInt(entry);
  return value < 0n ? [value, BigInt.asUintN(bits, value)] : [value];
}
