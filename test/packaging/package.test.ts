import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/bridge.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test('npm pack makes a package whose program starts from an empty folder', () => {
  const folder = temporaryFolder();
  const [packed] = JSON.parse(
    execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], { cwd: ROOT, encoding: 'utf8' }),
  ) as { filename: string; files: { path: string }[] }[];
  const paths = packed?.files.map(file => file.path) ?? [];
  expect(paths).toEqual(
    expect.arrayContaining([
      'dist/src/main.js',
      'config/boiler-house.yaml',
      'config/fieldbridge.schema.json',
      'LICENSE',
      'README.md',
      'CHANGELOG.md',
    ]),
  );
  expect(paths.filter(path => /^(src|test|simulators|bench)\/|dist\/(simulators|bench)/.test(path))).toEqual([]);

  execFileSync('tar', ['-xzf', join(folder, packed?.filename ?? ''), '-C', folder]);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'package', 'node_modules'));
  const empty = join(folder, 'empty');
  mkdirSync(empty);
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [join(folder, 'package', 'dist/src/main.js'), ...args], { cwd: empty, encoding: 'utf8' });
  expect(run('--version').stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(run('--help').stdout).toMatch(/\n {2}stdio .*serve one MCP client/);
  expect(run('check', join(folder, 'package/config/boiler-house.yaml'))).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/^OK: /),
  });
  expect(run('check', 'missing.yaml')).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('missing.yaml:1:1: the file can not be read: there is no such file'),
  });
  expect(readdirSync(empty)).toEqual([]);
});

test('one lock file, without the address of a registry', () => {
  const files = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).split('\n');
  expect(files.filter(name => /(^|\/)[\w-]*(-|\.)lock(\.json|\.yaml)?$/.test(name))).toEqual(['package-lock.json']);
  expect(spawnSync('grep', ['-c', 'resolved', join(ROOT, 'package-lock.json')], { encoding: 'utf8' }).stdout.trim()).toBe('0');
});
