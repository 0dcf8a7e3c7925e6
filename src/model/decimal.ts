/** An exact decimal number: `units` / 10^`places`. */
export interface Decimal {
  readonly units: bigint;
  readonly places: number;
}

/** The decimal that a finite number prints as (its shortest round-trip form), a bigint, or a decimal string. */
export function decimalOf(value: number | bigint | string): Decimal {
  if (typeof value === 'bigint') return { units: value, places: 0 };
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(String(value));
  if (match === null) throw new RangeError(`not a decimal number: ${String(value)}`);
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  const digits = BigInt(whole + fraction) * (sign === '-' ? -1n : 1n);
  const places = fraction.length - Number(exponent);
  return places >= 0 ? { units: digits, places } : { units: digits * 10n ** BigInt(-places), places: 0 };
}

export function formatDecimal({ units, places }: Decimal): string {
  const digits = (units < 0n ? -units : units).toString().padStart(places + 1, '0');
  const whole = digits.slice(0, digits.length - places);
  const fraction = digits.slice(digits.length - places).replace(/0+$/, '');
  return `${units < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

const raise = (d: Decimal, places: number): bigint => d.units * 10n ** BigInt(places - d.places);

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);
const exceedsDouble = (n: bigint): boolean => n > MAX_SAFE || n < -MAX_SAFE;

/** The answer to "which raw value is this": one, or the two around it. */
export type RawAnswer = { readonly raw: bigint } | { readonly below: bigint; readonly above: bigint };

/**
 * engineering = raw × scale + offset, computed on exact decimals: 234 × 0.1 is 23.4, and 4294967295 × 0.001 is
 * 4294967.295. The inverse says whether a value lies on the raw grid, and never rounds.
 */
export class Linear {
  readonly identity: boolean;
  private readonly scale: Decimal;
  private readonly offset: Decimal;
  private readonly places: number;
  private readonly scaleUnits: number;
  private readonly offsetUnits: number;
  private readonly power: number;

  constructor(scale: number | Decimal = 1, offset = 0) {
    this.scale = typeof scale === 'number' ? decimalOf(scale) : scale;
    this.offset = decimalOf(offset);
    this.places = Math.max(this.scale.places, this.offset.places);
    this.identity = this.scale.units === 1n && this.places === 0 && this.offset.units === 0n;
    this.scaleUnits = Number(raise(this.scale, this.places));
    this.offsetUnits = Number(raise(this.offset, this.places));
    this.power = 10 ** this.places;
  }

  /** The engineering value of a raw one. Beyond what a double holds exactly: an exact bigint or decimal string. */
  toEngineering(raw: number | bigint): number | bigint | string {
    if (typeof raw === 'bigint') {
      const units = raw * raise(this.scale, this.places) + raise(this.offset, this.places);
      const one = 10n ** BigInt(this.places);
      if (!exceedsDouble(raw) && !exceedsDouble(units / one)) return this.toEngineering(Number(raw));
      return units % one === 0n ? units / one : formatDecimal({ units, places: this.places });
    }
    if (this.identity) return raw;
    if (Number.isInteger(raw) && this.places <= 22) {
      const units = raw * this.scaleUnits + this.offsetUnits;
      // Two exact doubles divide to the nearest double, the same as parsing the decimal would give.
      if (Number.isSafeInteger(units) && Number.isSafeInteger(raw * this.scaleUnits)) return units / this.power;
    }
    const value = decimalOf(raw);
    const places = Math.max(value.places + this.scale.places, this.offset.places);
    const units = raise({ units: value.units * this.scale.units, places: value.places + this.scale.places }, places);
    return Number(formatDecimal({ units: units + raise(this.offset, places), places }));
  }

  /** (value - offset) / scale as an exact quotient. */
  private quotient(value: Decimal): { num: bigint; den: bigint } {
    const places = Math.max(value.places, this.offset.places);
    let num = (raise(value, places) - raise(this.offset, places)) * 10n ** BigInt(this.scale.places);
    let den = this.scale.units * 10n ** BigInt(places);
    if (den < 0n) {
      num = -num;
      den = -den;
    }
    return { num, den };
  }

  /**
   * The raw whole number of an engineering value. On the grid means within 1e-9 of the value (float noise of the
   * asker), and never further than a thousandth of a raw step, so that 2147483647.5 is not "nearly" 2147483648.
   */
  toRaw(value: number | bigint | string): RawAnswer {
    const { num, den } = this.quotient(decimalOf(value));
    let below = num / den;
    if (num < 0n && below * den !== num) below -= 1n;
    const rest = num - below * den;
    if (rest === 0n) return { raw: below };
    const nearest = rest * 2n >= den ? below + 1n : below;
    const error = nearest === below ? rest : den - rest;
    const size = num < 0n ? -num : num;
    if (error * 1_000n <= den && error * 1_000_000_000n <= (size > den ? size : den)) return { raw: nearest };
    return { below, above: below + 1n };
  }

  /** The same for a device that holds floating point: the nearest double of (value - offset) / scale. */
  toRawFloat(value: number | bigint | string): number {
    if (this.identity) return Number(value);
    const { num, den } = this.quotient(decimalOf(value));
    // Twenty significant digits of the quotient, three more than a double can tell apart.
    const size = (num < 0n ? -num : num).toString().length - den.toString().length;
    const places = Math.max(0, 20 - size);
    return Number(formatDecimal({ units: (num * 10n ** BigInt(places)) / den, places }));
  }

  /** Whether the grid passes through zero, so that JSON Schema's multipleOf can describe it. */
  get throughZero(): boolean {
    return 'raw' in this.toRaw(0);
  }
}

/** The shortest decimal that is still this float, so that 23.4 stored as float32 reads 23.4 and not 23.399999618. */
export function shortest(value: number, most: number, fits: (candidate: number) => number): number {
  if (!Number.isFinite(value) || Number.isInteger(value)) return value;
  for (let digits = 1; digits < most; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (fits(candidate) === value) return candidate;
  }
  return value;
}
