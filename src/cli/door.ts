import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import type { DoorReply, DoorRequest } from '../control/door.ts';
import { systemReason, wordsOf } from '../model/errors.ts';
import { escapeControls } from '../model/text.ts';
import { showValue } from '../model/value.ts';
import { readConfigAloud } from './config.ts';

export interface DecisionOptions {
  readonly config?: readonly string[];
  readonly reason?: string;
}

/** Who types this, as the record names him: whoever became root to do it did it in his own name. */
export const me = (): string => `cli:${process.env.SUDO_USER ?? userInfo().username}`;

/** No bridge runs that could be asked. */
export class NobodyThere extends Error {}

/** Asks the bridge that runs with this map. @throws NobodyThere, or an Error in words */
export async function askBridge(path: string, request: DoorRequest): Promise<Exclude<DoorReply, { error: string }>> {
  const reply = await new Promise<DoorReply>((resolve, reject) => {
    const socket = connect(path);
    let text = '';
    socket.on('connect', () => socket.write(`${JSON.stringify(request)}\n`));
    socket.on('data', chunk => {
      text += chunk.toString();
    });
    socket.on('end', () => {
      try {
        resolve(JSON.parse(text) as DoorReply);
      } catch {
        reject(new Error('the bridge gave no answer; its log says why'));
      }
    });
    socket.on('error', error => {
      const { code } = error as NodeJS.ErrnoException;
      reject(
        code === 'ENOENT' || code === 'ECONNREFUSED'
          ? new NobodyThere(`no bridge runs with this map and writes enabled (${path})`)
          : new Error(`the control door ${path} can not be opened: ${systemReason(error)}; it is for the bridge's own user and root`),
      );
    });
  });
  if ('error' in reply) throw new Error(reply.error);
  return reply;
}

/** The writes that wait for a person. */
export async function pending(files: readonly string[]): Promise<void> {
  const { door } = readConfigAloud(files).safety;
  const { pending: list = [] } = await askBridge(door, { ask: 'pending' });
  if (list.length === 0) process.stdout.write('nothing waits\n');
  for (const { id, state, question, expires, approver, outcome } of list) {
    const how =
      state === 'waiting'
        ? `until ${expires}`
        : `${approver === undefined ? '' : `by ${approver}`}${outcome === undefined ? '' : `: ${outcome.status}`}`;
    process.stdout.write(`${id}  ${state}  ${escapeControls(how)}\n    ${escapeControls(question)}\n`);
  }
}

/** One decision about one write. Ends with 1 where an approved one is not written. */
export async function decide(file: string, id: string, verdict: 'approve' | 'decline', options: DecisionOptions): Promise<void> {
  const { door } = readConfigAloud([file, ...(options.config ?? [])]).safety;
  const { outcome } = await askBridge(door, { ask: verdict, id, by: me(), ...(options.reason !== undefined && { why: options.reason }) });
  if (outcome === undefined) throw new Error('the bridge gave no outcome');
  const reason = outcome.reason === undefined ? '' : `; ${outcome.reason}`;
  process.stdout.write(
    escapeControls(
      `${outcome.point}: ${outcome.status}; asked for ${showValue(outcome.requested)}, was ${showValue(outcome.before)}${reason}`,
    ),
  );
  process.stdout.write('\n');
  if (verdict === 'approve' && outcome.status !== 'written' && outcome.status !== 'unchanged') process.exitCode = 1;
}

/** Keeps a bridge from writing, whether or not it runs now: the file alone does it. */
export async function lock(file: string, kind: 'lock' | 'unlock', options: DecisionOptions): Promise<void> {
  const { door, lockFile } = readConfigAloud([file, ...(options.config ?? [])]).safety;
  const why = options.reason === undefined ? {} : { why: options.reason };
  try {
    mkdirSync(dirname(lockFile), { recursive: true, mode: 0o750 });
    if (kind === 'lock')
      writeFileSync(lockFile, `${JSON.stringify({ by: me(), at: new Date().toISOString(), ...why })}\n`, { mode: 0o640 });
    else rmSync(lockFile, { force: true });
  } catch (error) {
    throw new Error(`the lock ${lockFile} can not be ${kind === 'lock' ? 'made' : 'taken off'}: ${systemReason(error)}`);
  }
  process.stdout.write(kind === 'lock' ? 'locked: nothing is written until `fieldbridge unlock`\n' : 'unlocked\n');
  await askBridge(door, { ask: kind, by: me(), ...why }).catch((error: unknown) => {
    // The file is in force all the same.
    const words = wordsOf(error);
    process.stdout.write(
      error instanceof NobodyThere ? 'no bridge runs with this map now\n' : `it is in force, but in no record: ${words}\n`,
    );
  });
}
