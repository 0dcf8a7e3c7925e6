import { readFileSync, statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml';
import { type Problem, systemReason } from '../model/errors.ts';
import type { ConfigPath } from '../model/protocol.ts';
import { escapeControls } from '../model/text.ts';

/** Bounds on what a file may ask of the parser; a map of ten thousand points stays far below them. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;
const MAX_ALIAS_EXPANSION = 100;

type Plain = { [key: string]: unknown };
const isPlain = (value: unknown): value is Plain => typeof value === 'object' && value !== null && !Array.isArray(value);

interface Parsed {
  readonly name: string;
  readonly path: string;
  readonly folder: string;
  readonly document: Document.Parsed;
  readonly lines: LineCounter;
  readonly value: unknown;
  readonly readable: boolean;
}

/** One or several YAML files, merged in order, that still know where each key stands. */
export class Sources {
  readonly value: unknown;
  /** Every file could be read as YAML, so that what it says can be checked. */
  readonly readable: boolean;
  private readonly files: readonly Parsed[];

  private constructor(files: readonly Parsed[]) {
    this.files = files;
    this.readable = files.every(file => file.readable);
    this.value = files.map(file => file.value).reduce((merged, next) => merge(merged, next), undefined);
  }

  /** Reads and parses; what is wrong with a file as YAML is added to `problems`. */
  static read(paths: readonly string[], problems: Problem[]): Sources {
    return new Sources(paths.map(path => readOne(path, problems)));
  }

  /** The problem at a path of keys: where the last file that has it has it, else at its nearest ancestor. */
  problem(path: ConfigPath, message: string, at: 'key' | 'value' = 'value'): Problem {
    const { file, offset } = this.locate(path, at);
    return { file: file.name, ...position(file.lines, offset), path: showPath(path), message };
  }

  /** The folder that relative paths in the value at this path start from. */
  folderOf(path: ConfigPath): string {
    return this.locate(path, 'value').file.folder;
  }

  /** The file that the value at this path stands in. */
  fileOf(path: ConfigPath): string {
    return this.locate(path, 'value').file.path;
  }

  private locate(path: ConfigPath, at: 'key' | 'value'): { file: Parsed; offset: number } {
    let best: { file: Parsed; offset: number; depth: number } | undefined;
    for (const file of this.files) {
      const found = find(file.document, path, at);
      if (best === undefined || found.depth >= best.depth) best = { file, ...found };
    }
    if (best === undefined) throw new Error('no configuration file was read');
    return best;
  }
}

function readOne(path: string, problems: Problem[]): Parsed {
  const name = displayName(path);
  const lines = new LineCounter();
  const report = (offset: number, message: string): void => {
    problems.push({ file: name, ...position(lines, offset), path: '', message });
  };
  let text = '';
  let readable = false;
  try {
    if (statSync(path).size > MAX_FILE_BYTES) report(0, `the file is larger than ${MAX_FILE_BYTES / 1024 / 1024} MB`);
    else text = readFileSync(path, 'utf8');
    if (text.trim() === '') report(0, 'the file is empty');
  } catch (error) {
    report(0, `the file can not be read: ${systemReason(error)}`);
  }
  let document = parseDocument('');
  let value: unknown;
  try {
    document = parseDocument(text, { lineCounter: lines, version: '1.2', schema: 'core', uniqueKeys: false, prettyErrors: false });
    // What follows the first mistake in the syntax is mostly its echo.
    const [issue] = document.errors.length > 0 ? document.errors : document.warnings;
    if (issue !== undefined) report(issue.pos[0], yamlMessage(issue.message));
    if (document.errors.length === 0) {
      checkNodes(document, lines, report);
      value = document.toJS({ maxAliasCount: MAX_ALIAS_EXPANSION });
      readable = text !== '';
    }
  } catch (error) {
    if (error instanceof RangeError) report(0, 'the file is nested too deeply');
    else report(firstAlias(document), 'aliases (*name) that refer to aliases expand to more than the bridge accepts');
  }
  return { name, path, folder: dirname(resolve(path)), document, lines, value, readable };
}

/** Duplicate and impossible keys, with the places of both; whole numbers that a double can not hold stay text. */
function checkNodes(document: Document.Parsed, lines: LineCounter, report: (offset: number, message: string) => void): void {
  visit(document, {
    Map: (_, map) => {
      const seen = new Map<string, number>();
      for (const { key } of map.items.slice()) {
        const node = key as Node;
        const offset = node.range?.[0] ?? 0;
        if (!isScalar(node)) {
          report(offset, 'a key must be a plain name');
          continue;
        }
        const name = String(node.value);
        const first = seen.get(name);
        if (name === '__proto__') {
          report(offset, 'this key is not a name that can be used here');
          map.items = map.items.filter(item => item.key !== key);
        } else if (first === undefined) seen.set(name, offset);
        else
          report(
            offset,
            `the key ${escapeControls(name)} stands twice in this map, first at line ${lines.linePos(first).line}, column ${lines.linePos(first).col}`,
          );
      }
    },
    Scalar: (_, node) => {
      if (
        typeof node.value === 'number' &&
        Number.isInteger(node.value) &&
        !Number.isSafeInteger(node.value) &&
        /^[-+]?(\d+|0x[\da-f]+)$/i.test(node.source ?? '')
      ) {
        node.value = node.source;
      }
    },
  });
}

function firstAlias(document: Document.Parsed): number {
  let offset = 0;
  visit(document, {
    Alias: (_, node) => {
      offset = node.range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset;
}

function find(document: Document.Parsed, path: ConfigPath, at: 'key' | 'value'): { offset: number; depth: number } {
  let node: unknown = document.contents;
  let offset = document.contents?.range?.[0] ?? 0;
  let depth = 0;
  for (const key of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = node.items.findLast(item => isScalar(item.key) && String(item.key.value) === String(key));
      if (pair === undefined) break;
      const keyOffset = (pair.key as Node).range?.[0] ?? offset;
      const valueOffset = (pair.value as Node | null)?.range?.[0] ?? keyOffset;
      // Of an ancestor, and of a value that is itself a map on the next line, the key is the place a person looks at.
      offset = at === 'key' || depth < path.length - 1 || isMap(pair.value) || isSeq(pair.value) ? keyOffset : valueOffset;
      node = pair.value;
    } else if (isSeq(node)) {
      const item = node.items[Number(key)] as Node | undefined;
      if (item === undefined) break;
      offset = item.range?.[0] ?? offset;
      node = item;
    } else break;
    depth++;
  }
  return { offset, depth };
}

/** Maps key by key, the later one winning; lists and values whole. */
export function merge(base: unknown, over: unknown): unknown {
  if (over === undefined || over === null) return base;
  if (!isPlain(base) || !isPlain(over)) return over;
  const merged: Plain = { ...base };
  for (const [key, value] of Object.entries(over)) merged[key] = key in merged ? merge(merged[key], value) : value;
  return merged;
}

function position(lines: LineCounter, offset: number): { line: number; column: number } {
  if (lines.lineStarts.length === 0) return { line: 1, column: 1 };
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

/** `devices.boiler.points.flow`, `tools.t.read[0]` */
export function showPath(path: ConfigPath): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : text === '' ? escapeControls(key) : `${text}.${escapeControls(key)}`),
    '',
  );
}

function displayName(path: string): string {
  const short = relative(process.cwd(), resolve(path));
  // Seen from the root, where services run, a path without its slash would look like another.
  return short.startsWith('..') || process.cwd() === '/' ? path : short;
}

function yamlMessage(message: string): string {
  if (message.includes('call stack')) return 'the file is nested too deeply';
  return escapeControls(message.replace(/\s+/g, ' ').trim());
}
