/** Lowest and highest whole number of so many bits, in two's complement where signed. */
export function integerLimits(bits: number, signed: boolean): readonly [bigint, bigint] {
  return signed ? [-(1n << BigInt(bits - 1)), (1n << BigInt(bits - 1)) - 1n] : [0n, (1n << BigInt(bits)) - 1n];
}
