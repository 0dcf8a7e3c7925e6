import type { Reporter, TestModule } from 'vitest/node';

/** Closes a run with one plain line that any other program can count by. */
export class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      if (module.errors().length > 0) counts.failed++;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed' || state === 'failed') counts[state]++;
        else counts.skipped++;
      }
    }
    // After the lines of the reporter before.
    process.once('exit', () => console.log(`tests: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`));
  }
}
