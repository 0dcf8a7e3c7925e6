import { editorSchema } from '../config/editor-schema.ts';
import { GRAMMAR } from '../protocols.ts';

/** Prints the JSON Schema of a map, for editors. */
export function schema(): void {
  process.stdout.write(`${JSON.stringify(editorSchema(GRAMMAR), null, 2)}\n`);
}
