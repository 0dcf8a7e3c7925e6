import { decodeAll } from '../drivers/modbus/describe.ts';
import { ORDERS } from '../drivers/modbus/types.ts';
import type { Reading } from '../model/sample.ts';
import { showValue } from '../model/value.ts';
import { table } from './table.ts';

/** Shows what one to four registers, or more as text, would be in each type and order. */
export function decode(words: readonly number[], options: { readonly scale: number }): void {
  const shown = (reading: Reading | undefined): string =>
    reading === undefined
      ? ''
      : reading.quality === 'bad'
        ? `(${reading.reason})`
        : typeof reading.value === 'string'
          ? reading.value
          : showValue(reading.value);
  const rows = decodeAll(words, options.scale).map(({ type, values }) => [type, ...ORDERS.map(order => shown(values[order]))]);
  process.stdout.write(table([['type', ...ORDERS], ...rows]));
}
