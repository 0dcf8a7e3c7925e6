import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A process of its own, so that its CPU time and its memory are its own. It says one thing as it is ready, and reports when asked. */
export class Part<Report, Ready = unknown> {
  readonly ready: Promise<Ready>;
  private readonly child: ChildProcess;

  constructor(script: string, args: readonly string[]) {
    this.child = fork(fileURLToPath(new URL(`./${script}`, import.meta.url)), args, { execArgv: ['--expose-gc'] });
    this.ready = new Promise(resolve => this.child.once('message', message => resolve(message as Ready)));
  }

  report(word: 'report' | 'stop' = 'report'): Promise<Report> {
    return new Promise(resolve => {
      this.child.once('message', message => resolve(message as Report));
      this.child.send(word);
    });
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }
}
