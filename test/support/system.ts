import { spawnSync } from 'node:child_process';

/**
 * Whether a program of the system is missing, so that its tests are skipped on a desktop. In CI, where
 * test/system-packages.sh has installed them all, nothing is skipped.
 */
export function needsSystem(program: string): boolean {
  const missing = spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0;
  if (missing && process.env.CI === 'true') throw new Error(`${program} is not installed; test/system-packages.sh installs it`);
  return missing;
}
