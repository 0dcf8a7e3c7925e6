import { createReadStream, statSync } from 'node:fs';
import { GENESIS, type Head, type SealedRecord, unseal } from './chain.ts';
import { AuditError, filesOf, readHead } from './files.ts';

/** What is wrong with a log, and where. */
export interface Flaw {
  readonly file: string;
  readonly line: number;
  readonly what: string;
}

export interface Verdict {
  /** The last record that stands in an unbroken chain. */
  readonly head: Head;
  readonly records: number;
  readonly flaws: readonly Flaw[];
}

/** After so many flaws the rest says nothing more. */
const MAX_FLAWS = 20;

/**
 * Goes through all files of a log: each record sealed with the key, numbered one after the other, and carrying on the
 * seal of the one before; the end not before the head that is known.
 *
 * @param known heads from elsewhere, such as the journal, besides the one beside the log
 * @throws AuditError where there is no log
 */
export async function verifyLog(path: string, key: Buffer, known: readonly Head[] = []): Promise<Verdict> {
  const files = filesOf(path);
  if (files.length === 0) throw new AuditError(`there is no audit file ${path}`);
  const heads = [...known, readHead(path)].filter(({ n }) => n > 0);
  const flaws: Flaw[] = [];
  let head = GENESIS;
  let records = 0;
  let last: Flaw = { file: path, line: 0, what: '' };
  for (const file of files) {
    let line = 0;
    for await (const text of linesOf(file)) {
      line++;
      last = { file, line, what: '' };
      const found = unseal(key, text);
      const flaw = found === undefined ? 'was changed, or was not sealed with this key' : breakIn(head, found.record);
      if (flaw !== undefined) flaws.push({ file, line, what: flaw });
      if (flaws.length >= MAX_FLAWS) return { head, records, flaws };
      if (found === undefined) continue;
      if (heads.some(({ n, mac }) => n === found.head.n && mac !== found.head.mac))
        flaws.push({ file, line, what: `record ${found.head.n} is not the one that was noted` });
      head = found.head;
      records++;
    }
  }
  const most = Math.max(0, ...heads.map(({ n }) => n));
  if (head.n < most) flaws.push({ ...last, what: `the log ends at record ${head.n}, but ${most} were written: its end was cut off` });
  return { head, records, flaws };
}

function breakIn(head: Head, { n, prev }: SealedRecord): string | undefined {
  if (n !== head.n + 1)
    return n > head.n + 1
      ? `record ${n} follows ${head.n === 0 ? 'nothing' : `record ${head.n}`}: ${n - head.n - 1} are missing`
      : `record ${n} follows record ${head.n}: they are not in order`;
  return prev === head.mac ? undefined : `record ${n} does not carry on from the one before it`;
}

/** Records that are sealed, in their order. @param since files that were not written to after it are left out */
export async function* recordsOf(path: string, key: Buffer, since = 0): AsyncGenerator<SealedRecord> {
  for (const file of filesOf(path).filter(one => statSync(one).mtimeMs >= since))
    for await (const line of linesOf(file)) {
      const found = unseal(key, line);
      if (found !== undefined) yield found.record;
    }
}

/** A line ends at a line feed and nowhere else: a text in it may hold what Unicode calls a line separator. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of createReadStream(file, { encoding: 'utf8' })) {
    const lines = `${rest}${chunk as string}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}
