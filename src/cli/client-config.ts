import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { endpointOf, type HttpSettings, isEveryAddress } from '../model/access.ts';
import { nearest } from '../model/text.ts';
import { clientSnippets, type Snippet } from './client-snippets.ts';
import { readConfigAloud } from './config.ts';

export interface ClientConfigOptions {
  readonly client?: string;
  readonly transport?: Snippet['transport'];
}

/** How clients call a listener that has no address of its own, or a name in its certificate. */
function nameOf({ host, allowedHosts, tls }: HttpSettings): string {
  const isEvery = isEveryAddress(host);
  return (tls !== undefined || isEvery ? allowedHosts[0]?.replace(/:\d+$/, '') : undefined) ?? (isEvery ? '127.0.0.1' : host);
}

/** Prints what to paste into each known client, for a bridge with this map. Opens no connection. */
export function clientConfig(files: readonly string[], { client, transport }: ClientConfigOptions): void {
  const { http } = readConfigAloud(files);
  const main = fileURLToPath(new URL('../main.js', import.meta.url));
  const endpoint = endpointOf({ ...http, host: nameOf(http) });
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
  // It is shown once, by `fieldbridge token`, and stands in no map.
  const token = http.tokens.length > 0 ? '; add the header Authorization: Bearer TOKEN, or FIELDBRIDGE_TOKEN for --attach' : '';
  for (const { client: name, transport: by, where, text } of chosen)
    process.stdout.write(
      `# ${name}, over ${by === 'http' ? `HTTP, to a bridge that runs${token}` : 'stdio, a bridge of its own'}: ${where}\n${text}\n\n`,
    );
}
