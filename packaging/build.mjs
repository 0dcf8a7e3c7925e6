// Builds dist/ from nothing, so that no file of an earlier build stays behind; the old one stands until the new is whole.
import { execSync } from 'node:child_process';
import { chmodSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const [built, old] = [`dist.${process.pid}.new`, `dist.${process.pid}.old`].map(name => join(root, name));
const dist = join(root, 'dist');
try {
  execSync(`npx --no-install tsc -p tsconfig.build.json --outDir ${built}`, { cwd: root, stdio: 'inherit' });
  chmodSync(join(built, 'src/main.js'), 0o755);
  writeFileSync(join(built, '.built'), '');
  try {
    renameSync(dist, old);
  } catch {
    // The first build.
  }
  renameSync(built, dist);
} catch (error) {
  // The compiler has said what is wrong.
  process.exitCode = error.status ?? 1;
} finally {
  for (const folder of [built, old]) rmSync(folder, { recursive: true, force: true });
}
