// Makes fieldbridge-VERSION.mcpb, to be opened with a desktop client: the built program with what it needs at run time.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const read = path => JSON.parse(readFileSync(join(root, path), 'utf8'));
const run = (command, args, cwd) => execFileSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] });

const { version } = read('package.json');
const target = resolve(process.argv[2] ?? `fieldbridge-${version}.mcpb`);
const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-bundle-'));
try {
  const server = join(folder, 'server');
  mkdirSync(server);
  for (const path of ['package.json', 'package-lock.json', 'dist/src', 'config', 'LICENSE'])
    cpSync(join(root, path), join(server, path), { recursive: true });
  cpSync(join(root, 'packaging/bundle-start.mjs'), join(server, 'start.mjs'));
  writeFileSync(join(folder, 'manifest.json'), `${JSON.stringify({ ...read('packaging/bundle-manifest.json'), version }, null, 2)}\n`);
  // Nothing that a dependency would do at its installation is needed: what is native comes built, for every platform.
  run('npm', ['ci', '--omit=dev', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'], server);
  const mcpb = join(root, 'node_modules/@anthropic-ai/mcpb/dist/cli/cli.js');
  run(process.execPath, [mcpb, 'validate', 'manifest.json'], folder);
  run(process.execPath, [mcpb, 'pack', '.', target], folder);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
