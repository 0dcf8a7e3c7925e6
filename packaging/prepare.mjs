// Makes a fresh clone ready: dependencies as the lock file names them, then the build. Uses nothing but Node and npm,
// and does nothing that was done already.
import { execSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const at = path => (existsSync(join(root, path)) ? statSync(join(root, path)).mtimeMs : 0);
const run = command => execSync(command, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`fieldbridge needs Node 20.19 or newer; this is ${process.versions.node}`);
  process.exit(1);
}

if (at('node_modules/.package-lock.json') < at('package-lock.json')) {
  console.error('installing dependencies …');
  run('npm ci --no-audit --no-fund --loglevel=error');
}

const newest = ['src', 'simulators', 'bench']
  .flatMap(folder => readdirSync(join(root, folder), { recursive: true }).map(file => at(join(folder, file))))
  .concat(at('tsconfig.json'), at('tsconfig.build.json'), at('package.json'));
if (at('dist/.built') < Math.max(...newest)) {
  console.error('building …');
  run('npm run build');
}
