import { editorSchema } from '../config/editor-schema.ts';
import { grammar } from '../protocols.ts';

/** Prints the JSON Schema of a map, for editors. */
export function schema(): void {
  process.stdout.write(`${JSON.stringify(editorSchema(grammar()), null, 2)}\n`);
}
