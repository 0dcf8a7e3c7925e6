import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { systemReason } from '../model/errors.ts';
import type { ConfigPath } from '../model/protocol.ts';

type Plain = { [key: string]: unknown };

const CERTIFICATE_KEYS = ['ca', 'cert', 'key'];

/** Certificates and keys are named by their files. */
function isFileName(path: ConfigPath, key: string, item: unknown): item is string {
  return (
    path[0] === 'connections' &&
    path.at(-1) === 'tls' &&
    CERTIFICATE_KEYS.includes(key) &&
    typeof item === 'string' &&
    !item.includes('-----BEGIN')
  );
}

/** Stands where a secret could not be had, which is told; nothing else is to be said of it. */
const MISSING = 'missing';

/**
 * Any string value may be `{ env: NAME }` or `{ file: path }`: puts the text in its place and remembers where, so that
 * no message repeats it. One trailing line break of a file is not part of the secret.
 */
export function resolveSecrets(
  root: unknown,
  folderOf: (path: ConfigPath) => string,
  report: (path: ConfigPath, message: string) => void,
): { value: unknown; secret: (path: ConfigPath) => boolean } {
  const found = new Set<string>();
  const walk = (value: unknown, path: ConfigPath): unknown => {
    if (Array.isArray(value)) return value.map((item, i) => walk(item, [...path, i]));
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value as Plain);
    const [first] = entries;
    if (entries.length === 1 && first !== undefined && typeof first[1] === 'string' && (first[0] === 'env' || first[0] === 'file')) {
      found.add(JSON.stringify(path));
      return first[0] === 'env' ? fromEnv(first[1], path) : fromFile(first[1], path);
    }
    return Object.fromEntries(
      entries.map(([key, item]) => {
        const at = [...path, key];
        return [key, isFileName(path, key, item) ? fromFile(item, at) : walk(item, at)];
      }),
    );
  };
  const fromEnv = (name: string, path: ConfigPath): string => {
    const text = process.env[name];
    if (text === undefined) report([...path, 'env'], `the environment variable ${name} is not set`);
    return text ?? MISSING;
  };
  const fromFile = (name: string, path: ConfigPath): string => {
    const file = resolve(folderOf(path), name);
    try {
      return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    } catch (error) {
      report(path, `the file ${name} can not be read: ${systemReason(error)}`);
      return MISSING;
    }
  };
  return { value: walk(root, []), secret: path => found.has(JSON.stringify(path)) };
}
