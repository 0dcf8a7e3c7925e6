import { execFileSync } from 'node:child_process';

/** Tools that check the bridge want Node 22; the bridge itself runs on older ones. */
export function newerNode(): string {
  if (Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  return execFileSync('npx', ['-y', '-p', 'node@24', 'node', '-p', 'process.execPath'], { encoding: 'utf8' }).trim();
}
