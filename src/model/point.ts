import type { JsonSchema } from './json-schema.ts';
import type { Role } from './role.ts';
import type { Value } from './value.ts';

/** What kind of value a point has, as a person thinks of it. */
export type ValueKind =
  | { readonly kind: 'bool' }
  | { readonly kind: 'number'; readonly integer: boolean }
  | { readonly kind: 'enum'; readonly labels: readonly string[] }
  | { readonly kind: 'flags'; readonly labels: readonly string[] }
  | { readonly kind: 'text' }
  | { readonly kind: 'time' }
  | { readonly kind: 'bytes' };

/** Smallest change worth telling: absolute in engineering units, or a share of the range (else of the last value told). */
export type Deadband = { readonly absolute: number } | { readonly percent: number };

export interface WriteRule {
  readonly min?: number;
  readonly max?: number;
  readonly maxStep?: number;
  readonly role: Role;
  /** Milliseconds that must lie between two writes of this point. */
  readonly minInterval: number;
  /** Milliseconds in which the read-back must agree; undefined: not verified. */
  readonly verify?: number;
  /** The point that shows what became of a write, where the written one does not, and how near it has to come. */
  readonly verifyBy?: { readonly point: string; readonly tolerance: number };
  /** CEL over live points, without which nothing is written. */
  readonly interlock?: string;
  /** Who has to agree: the person at the client, or one with a name, outside the assistant's reach. */
  readonly confirm: 'none' | 'client' | 'person';
  /** Most writes in 24 hours. */
  readonly maxPerDay?: number;
  /** True for so many milliseconds, then false again; what is done about one that a killed process left on. */
  readonly pulse?: { readonly ms: number; readonly onRestart: 'release' | 'report' };
  /** The value that is written when a write is not renewed within so many milliseconds. */
  readonly lease?: { readonly ttl: number; readonly safe: unknown };
}

/** One measured or set quantity of the plant. Made once per configuration and frozen. */
export interface Point {
  /** `device.point` */
  readonly name: string;
  readonly device: string;
  readonly id: string;
  /** `plant://device/point` */
  readonly uri: string;
  readonly description?: string;
  readonly unit?: string;
  /** The type as it stands in the map: `int16`, `float32`, `bool` … */
  readonly type: string;
  readonly value: ValueKind;
  /** Schema of what a client may write. */
  readonly writeSchema?: JsonSchema;
  readonly range?: readonly [number, number];
  readonly deadband: Deadband;
  /** Milliseconds. */
  readonly pollInterval: number;
  readonly staleAfter: number;
  readonly hidden: boolean;
  readonly write?: WriteRule;
  /**
   * The value as the device will show it once it is written: the same for numbers, canonical for text and times.
   * Absent where another point holds the scale, so that only the device's driver can tell.
   *
   * @throws Refusal where the device can not hold exactly this value
   */
  readonly canonical?: (value: Value) => Value;
}
