/** The four tables of a Modbus device (MODBUS Application Protocol V1.1b3, 4.3). */
export const TABLES = ['coil', 'discrete', 'input', 'holding'] as const;
export type Table = (typeof TABLES)[number];

export const TABLE_NAMES: Readonly<Record<Table, string>> = {
  coil: 'coil',
  discrete: 'discrete input',
  input: 'input register',
  holding: 'holding register',
};

export const isBitTable = (table: Table): boolean => table === 'coil' || table === 'discrete';

export interface Address {
  readonly table: Table;
  /** As it goes over the wire, from 0. */
  readonly address: number;
}

const BY_DIGIT: Readonly<Record<string, Table>> = { '0': 'coil', '1': 'discrete', '3': 'input', '4': 'holding' };

/**
 * Modicon notation, always one-based: 40101 and 400101 are holding register offset 100, `4x00101` too. Coils need a
 * leading zero and so must be text: `"00005"`, `"0x00005"`.
 */
export function parseModicon(register: number | string): Address | string {
  const text = String(register);
  const match = /^([0134])x(\d{1,5})$/i.exec(text) ?? /^([0134])(\d{4}|\d{5})$/.exec(text);
  const table = BY_DIGIT[match?.[1] ?? ''];
  if (match === null || table === undefined) {
    return `${text} is no Modicon address; expected five or six digits such as 40101 or 400101, or 4x00101 (0x and leading zeros in quotes); a plain number belongs in coil, discrete, input or holding`;
  }
  const number = Number(match[2]);
  if (number < 1 || number > 65536) return `${text} is out of range: Modicon addresses count from 1 to 65536`;
  return { table, address: number - 1 };
}

export interface Range {
  readonly table: Table;
  readonly from: number;
  readonly to: number;
}

/** `holding:200-210` or `coil:5`, in the addressing of its device. */
export function parseRange(text: string, base: 0 | 1): Range | undefined {
  const match = /^(coil|discrete|input|holding):(\d+|0x[\da-f]+)(?:-(\d+|0x[\da-f]+))?$/i.exec(text);
  if (match === null) return undefined;
  const from = Number(match[2]) - base;
  const to = match[3] === undefined ? from : Number(match[3]) - base;
  return from < 0 || to < from || to > 65535 ? undefined : { table: match[1] as Table, from, to };
}
