import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/**
 * Whether a program of the system is missing, so that its tests are skipped on a desktop. In CI, where
 * test/system-packages.sh has installed them all, nothing is skipped.
 */
export function needsSystem(program: string): boolean {
  return isMissing(program, spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0);
}

/** The same for a module of the system's Python. */
export function needsPython(module: string): boolean {
  return isMissing(`Python's ${module}`, spawnSync('/usr/bin/python3', ['-c', `import ${module}`]).status !== 0);
}

/** The same for a file of a system's package. */
export function needsFile(path: string): boolean {
  return isMissing(path, !existsSync(path));
}

function isMissing(what: string, missing: boolean): boolean {
  if (missing && process.env.CI === 'true') throw new Error(`${what} is not installed; test/system-packages.sh installs it`);
  return missing;
}
