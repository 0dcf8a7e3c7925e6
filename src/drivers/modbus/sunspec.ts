import { ExceptionResponse } from '../../model/errors.ts';

/** "SunS": where a SunSpec map begins (SunSpec Information Model Specification, 3). */
const MARKER = [0x5375, 0x6e53] as const;
const BASES = [40_000, 50_000, 0] as const;
const END_MODEL = 0xffff;
/** More models than any device has; a chain that does not end is no chain. */
const MAX_MODELS = 64;

type Read = (address: number, count: number) => Promise<readonly number[]>;

/**
 * The models of a SunSpec device and the address of the first register of each, its id. Empty where there is no SunSpec
 * map at any of the three addresses that the specification allows.
 */
export async function discoverModels(read: Read): Promise<ReadonlyMap<number, number>> {
  for (const base of BASES) {
    const marker = await readOrNothing(read, base);
    if (marker[0] === MARKER[0] && marker[1] === MARKER[1]) return await walk(read, base + MARKER.length);
  }
  return new Map();
}

async function walk(read: Read, first: number): Promise<ReadonlyMap<number, number>> {
  const models = new Map<number, number>();
  let address = first;
  for (let i = 0; i < MAX_MODELS && address < 65_534; i++) {
    const [id = END_MODEL, length = 0] = await readOrNothing(read, address);
    if (id === END_MODEL) break;
    if (!models.has(id)) models.set(id, address);
    address += 2 + length;
  }
  return models;
}

async function readOrNothing(read: Read, address: number): Promise<readonly number[]> {
  try {
    return await read(address, 2);
  } catch (error) {
    if (error instanceof ExceptionResponse) return [];
    throw error;
  }
}
