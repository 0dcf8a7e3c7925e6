import { createHash, randomBytes } from 'node:crypto';
import type { Role } from '../model/role.ts';

export interface TokenOptions {
  readonly role: Role;
  readonly approves?: true;
}

/** Makes a bearer token: its text for the client, shown this once, and its hash for the map. */
export function makeToken(name: string, { role, approves }: TokenOptions): void {
  if (!/^[a-z][a-z0-9-]{0,47}$/.test(name))
    throw new Error(`a name of a-z, 0-9 and -, starting with a letter, of at most 48 characters is expected, got ${JSON.stringify(name)}`);
  const token = `fb_${randomBytes(32).toString('base64url')}`;
  const sha256 = createHash('sha256').update(token).digest('hex');
  const who = approves === true ? 'the person who approves' : 'the client';
  process.stdout.write(`for ${who}, shown this once:\n${token}\n\nfor the map:\nhttp:\n  auth:\n    tokens:\n`);
  process.stdout.write(`      - { name: ${name}, role: ${role}, sha256: "${sha256}"${approves === true ? ', approves: true' : ''} }\n`);
}
