import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

/** From the ground; rooms of one floor do not know each other. */
const FLOORS: readonly (readonly string[])[] = [
  ['model'],
  ['expression'],
  ['config', 'drivers', 'store'],
  ['control', 'northbound'],
  ['mcp'],
  ['http'],
  ['protocols.ts', 'reload.ts'],
  ['wires.ts'],
  ['bridge.ts'],
  ['cli'],
  ['main.ts'],
];

/** Libraries that only these rooms may use. */
const KEPT: Readonly<Record<string, readonly string[]>> = {
  'modbus-serial': ['drivers'],
  mqtt: ['drivers'],
  'sparkplug-payload': ['drivers'],
  '@modelcontextprotocol': ['mcp', 'http'],
  fastify: ['http'],
  yaml: ['config'],
  '@marcbachmann/cel-js': ['expression'],
  commander: ['main.ts'],
  jose: ['http'],
  'prom-client': ['http'],
  'node-unix-socket': ['cli'],
};

interface Import {
  readonly file: string;
  readonly target: string;
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.ts'));
/** Also imports of types alone: a type is knowledge too. */
const imports: Import[] = files.flatMap(file => {
  const text = readFileSync(join(SRC, file), 'utf8');
  return [...text.matchAll(/(?:^|\n)\s*(?:import|export)\s[^;]*?from\s+'([^']+)'|import\('([^']+)'\)/g)].map(match => ({
    file,
    target: match[1] ?? match[2] ?? '',
  }));
});

const resolved = ({ file, target }: Import): string => normalize(join(dirname(file), target));
const roomOf = (file: string): string => file.split('/')[0] ?? '';
const floorOf = (room: string): number => FLOORS.findIndex(floor => floor.includes(room));

test('there are files, each in a room of the house', () => {
  expect(files.length).toBeGreaterThan(50);
  expect(imports.length).toBeGreaterThan(100);
  expect(files.filter(file => floorOf(roomOf(file)) < 0)).toEqual([]);
});

test('a stage knows the stages below it, never those above or beside it', () => {
  const wrong = imports
    .filter(({ target }) => target.startsWith('.'))
    .filter(one => {
      const [from, to] = [roomOf(one.file), roomOf(resolved(one))];
      return from !== to && floorOf(to) >= floorOf(from);
    });
  expect(wrong).toEqual([]);
});

test('a library stays in its room', () => {
  const wrong = imports.filter(({ file, target }) =>
    Object.entries(KEPT).some(([name, rooms]) => (target === name || target.startsWith(`${name}/`)) && !rooms.includes(roomOf(file))),
  );
  expect(wrong).toEqual([]);
});

test('no file knows itself by way of others', () => {
  const edges = new Map(files.map(file => [file, imports.filter(one => one.file === file && one.target.startsWith('.')).map(resolved)]));
  const done = new Set<string>();
  const circles: string[] = [];
  const walk = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (path.includes(file) || done.has(file)) return;
    for (const next of edges.get(file) ?? []) walk(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
  expect(circles).toEqual([]);
  expect(relative(SRC, SRC)).toBe('');
});
