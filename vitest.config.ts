import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/support/longest-first.ts';
import { SummaryReporter } from './test/support/summary-reporter.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Ends what hangs; a test that means a time says it itself.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'forks',
    // No module of the project keeps state, so each is loaded once for all files of a worker.
    isolate: false,
    // Many tests wait for a clock; one more than there are cores uses what they leave.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', new SummaryReporter()],
  },
});
