import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

interface Requirement {
  readonly id: string;
  readonly text: string;
  readonly source: string;
  readonly tests: readonly string[];
}

const root = fileURLToPath(new URL('..', import.meta.url));
const requirements = parse(readFileSync(`${root}/test/requirements.yaml`, 'utf8')) as Requirement[];
const split = (test: string): [string, string] => {
  const at = test.indexOf(': ');
  return [test.slice(0, at), test.slice(at + 2)];
};

test('each requirement has a source that is there and tests that are there', () => {
  expect(new Set(requirements.map(one => one.id)).size).toBe(requirements.length);
  for (const { id, text, source, tests } of requirements) {
    expect(text, id).toBeTruthy();
    const [file] = source.split(/[,;]/);
    if (/\.(md|ts)$/.test(file ?? '')) expect(existsSync(`${root}/${file}`), `${id}: ${file}`).toBe(true);
    expect(tests.length, id).toBeGreaterThan(0);
    for (const [path, words] of tests.map(split)) {
      expect(existsSync(`${root}/${path}`), `${id}: ${path}`).toBe(true);
      const code = readFileSync(`${root}/${path}`, 'utf8');
      const cases = readdirSync(`${root}/test/cases`).map(name => readFileSync(`${root}/test/cases/${name}`, 'utf8'));
      expect(
        [code, ...cases].some(file => file.includes(words)),
        `${id}: "${words}" in ${path}`,
      ).toBe(true);
    }
  }
});

test('each file of tests holds some requirement', () => {
  const named = new Set(requirements.flatMap(one => one.tests.map(test => split(test)[0])));
  const files = readdirSync(`${root}/test`, { recursive: true, encoding: 'utf8' }).filter(
    file => file.endsWith('.test.ts') && file !== 'requirements.test.ts',
  );
  expect(files.map(file => `test/${file}`).filter(file => !named.has(file))).toEqual([]);
});

test('each heading of what is promised has its requirement', () => {
  const safety = readFileSync(`${root}/docs/safety.md`, 'utf8');
  expect(safety).toContain('test/requirements.yaml');
  expect(requirements.filter(one => one.source.startsWith('docs/safety.md')).length).toBeGreaterThanOrEqual(4);
});
