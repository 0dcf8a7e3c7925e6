import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

/** The executable as it was built: the tests of the command line run what a user runs. */
export const MAIN = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts the executable; it does not outlive the test. */
export function startCli(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return child;
}

export function ended(child: ChildProcess): Promise<Ended> {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  return new Promise(resolve => child.on('close', code => resolve({ code, stdout, stderr })));
}

export async function runCli(args: readonly string[], input = ''): Promise<Ended> {
  const child = startCli(args);
  child.stdin?.end(input);
  return await ended(child);
}
