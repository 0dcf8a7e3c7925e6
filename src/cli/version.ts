import { readFileSync } from 'node:fs';

/** The version in package.json, which lies one or two folders above, as source or built. */
export function packageVersion(): string {
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      const manifest = JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as { name?: string; version?: string };
      if (manifest.name === 'fieldbridge' && manifest.version !== undefined) return manifest.version;
    } catch {
      // Not there: the next one.
    }
  }
  return '0.0.0';
}
