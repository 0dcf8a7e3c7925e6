// Builds dist/ from nothing, so that no file of an earlier build stays behind, and marks when it was done.
import { execSync } from 'node:child_process';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
rmSync(join(root, 'dist'), { recursive: true, force: true });
execSync('npx --no-install tsc -p tsconfig.build.json', { cwd: root, stdio: 'inherit' });
chmodSync(join(root, 'dist/src/main.js'), 0o755);
writeFileSync(join(root, 'dist/.built'), '');
