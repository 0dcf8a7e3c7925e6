import { readFileSync } from 'node:fs';
import { attach as serveAttached } from '../mcp/attach/serve.ts';
import { Trace } from '../mcp/trace.ts';
import { systemReason } from '../model/errors.ts';
import { createLog } from './log.ts';
import { askedToEnd } from './start.ts';

export interface AttachOptions {
  readonly tokenFile?: string;
  readonly trace?: string;
}

/** One client on standard input and output, served by a bridge that runs already. */
export async function attach(url: string, { tokenFile, trace }: AttachOptions): Promise<void> {
  if (!URL.canParse(url) || !['http:', 'https:'].includes(new URL(url).protocol))
    throw new Error(`--attach: the address of a running bridge such as http://127.0.0.1:8502/mcp is expected, got ${JSON.stringify(url)}`);
  const { username, password, href } = new URL(url);
  if (username !== '' || password !== '')
    throw new Error('--attach: an address without user and password is expected; give a token in FIELDBRIDGE_TOKEN or with --token-file');
  const token = tokenFile === undefined ? process.env.FIELDBRIDGE_TOKEN : readToken(tokenFile);
  const parts = { url: href, log: await createLog('info'), ...(token !== undefined && token !== '' && { token }) };
  const traced = trace === undefined ? parts : { ...parts, trace: await Trace.open(trace) };
  await serveAttached(traced, { input: process.stdin, output: process.stdout }, askedToEnd());
}

function readToken(file: string): string {
  let token: string;
  try {
    token = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new Error(`the token file ${file} can not be read: ${systemReason(error)}`);
  }
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Error(`the token file ${file} holds no token: one line without spaces is expected`);
  return token;
}
