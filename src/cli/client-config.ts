import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { endpointOf } from '../model/access.ts';
import { nearest } from '../model/text.ts';
import { clientSnippets, type Snippet } from './client-snippets.ts';
import { readConfigAloud } from './config.ts';

export interface ClientConfigOptions {
  readonly client?: string;
  readonly transport?: Snippet['transport'];
}

/** Prints what to paste into each known client, for a bridge with this map. Opens no connection. */
export function clientConfig(files: readonly string[], { client, transport }: ClientConfigOptions): void {
  const { http } = readConfigAloud(files);
  const main = fileURLToPath(new URL('../main.js', import.meta.url));
  const endpoint = endpointOf(http);
  const all = clientSnippets({
    endpoint,
    // A client that is no shell knows neither its PATH nor its folder.
    program: [process.execPath, main],
    files: files.map(file => resolve(file)),
  });
  const known = [...new Set(all.map(snippet => snippet.client))];
  const wanted = known.find(name => name.toLowerCase() === client?.toLowerCase());
  if (client !== undefined && wanted === undefined) {
    const [near] = nearest(client, known, 1);
    throw new Error(
      `there is no snippet for ${JSON.stringify(client)}; there are ${known.join(', ')}${near === undefined ? '' : ` — did you mean ${near}?`}`,
    );
  }
  const chosen = all.filter(
    one => (wanted === undefined || one.client === wanted) && (transport === undefined || one.transport === transport),
  );
  for (const { client: name, transport: by, where, text } of chosen)
    process.stdout.write(
      `# ${name}, over ${by === 'http' ? 'HTTP, to a bridge that runs' : 'stdio, a bridge of its own'}: ${where}\n${text}\n\n`,
    );
}
