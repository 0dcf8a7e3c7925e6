import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { systemReason } from '../model/errors.ts';
import type { ConfigPath } from '../model/protocol.ts';

type Plain = { [key: string]: unknown };

const CERTIFICATE_KEYS = ['ca', 'cert', 'key', 'client_ca'];
const SECRET_KEYS = ['password', 'key'];

/** Certificates and keys are named by their files. */
function isFileName(path: ConfigPath, key: string, item: unknown): item is string {
  return (
    (path[0] === 'connections' || path[0] === 'http') &&
    path.at(-1) === 'tls' &&
    CERTIFICATE_KEYS.includes(key) &&
    typeof item === 'string' &&
    !item.includes('-----BEGIN')
  );
}

/** Stands where a secret could not be had, which is told; nothing else is to be said of it. */
const MISSING = 'missing';

/** Whether everybody on this machine can read a file. */
function isOpenToAll(file: string): boolean {
  try {
    return (statSync(file).mode & 0o004) !== 0;
  } catch {
    return false;
  }
}

export interface Resolved {
  readonly value: unknown;
  secret(path: ConfigPath): boolean;
  /** The file that a text came from. */
  fileOf(path: ConfigPath): string | undefined;
  /** Every file that was read. */
  readonly files: readonly string[];
}

/**
 * Any string value may be `{ env: NAME }` or `{ file: path }`: puts the text in its place and remembers where, so that
 * no message repeats it. One trailing line break of a file is not part of the secret.
 */
export function resolveSecrets(
  root: unknown,
  source: { folderOf(path: ConfigPath): string; fileOf(path: ConfigPath): string },
  report: (path: ConfigPath, message: string) => void,
  warn: (path: ConfigPath, message: string) => void,
): Resolved {
  const found = new Set<string>();
  const files = new Map<string, string>();
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
        if (isInlineSecret(key, item) && isOpenToAll(source.fileOf(at)))
          warn(
            at,
            'this secret stands in a file that everybody on this machine can read; take it out as { file: … }, or `chmod o-r` the file',
          );
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
    const file = resolve(source.folderOf(path), name);
    files.set(JSON.stringify(path), file);
    try {
      if (SECRET_KEYS.includes(String(path.at(-1))) && isOpenToAll(file))
        warn(path, `everybody on this machine can read the secret in ${name}; \`chmod o-r\` it`);
      return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    } catch (error) {
      report(path, `the file ${name} can not be read: ${systemReason(error)}`);
      return MISSING;
    }
  };
  const value = walk(root, []);
  return {
    value,
    secret: path => found.has(JSON.stringify(path)),
    fileOf: path => files.get(JSON.stringify(path)),
    files: [...new Set(files.values())],
  };
}

const isInlineSecret = (key: string, item: unknown): boolean =>
  typeof item === 'string' && item !== '' && (key === 'password' || (key === 'key' && item.includes('PRIVATE KEY')));
