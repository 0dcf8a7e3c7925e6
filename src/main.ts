#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import type { StartOptions } from './cli/start.ts';
import { packageVersion } from './cli/version.ts';
import { ConfigError } from './model/errors.ts';

/** 0: done. 1: it could not be done. 2: the command line or the configuration is mistaken. */
const FAILED = 1;
const MISTAKEN = 2;

const program = new Command('fieldbridge')
  .description('Lets an AI assistant read sensors and actuate valves, safely')
  .version(packageVersion())
  .showSuggestionAfterError()
  .exitOverride();

// Each command loads what it needs and no more: checking a map takes a fraction of what serving it takes.
const CONFIG = 'the map: a YAML file, or several that are merged in the order given';

program
  .command('run')
  .description('poll, and serve MCP over HTTP')
  .argument('<config...>', CONFIG)
  .option('--read-only', 'write nothing, whatever the configuration says')
  .action(async (files: string[], options: StartOptions) => (await import('./cli/run.ts')).run(files, options));
program
  .command('stdio')
  .description('serve one MCP client on standard input and output')
  .argument('<config...>', CONFIG)
  .option('--read-only', 'write nothing, whatever the configuration says')
  .action(async (files: string[], options: StartOptions) => (await import('./cli/stdio.ts')).stdio(files, options));
program
  .command('check')
  .description('say whether a configuration is sound, without opening a connection')
  .argument('<config...>', CONFIG)
  .action(async (files: string[]) => (await import('./cli/check.ts')).check(files));
program
  .command('schema')
  .description('print the JSON Schema of a configuration')
  .action(async () => (await import('./cli/schema.ts')).schema());

process.on('unhandledRejection', error => fail(error));
process.on('uncaughtException', error => fail(error));

try {
  await program.parseAsync();
  process.exitCode ??= 0;
} catch (error) {
  fail(error);
}
// What still holds the event loop has nothing to finish any more, but what was printed shall be out.
await new Promise(resolve => process.stdout.write('', resolve));
process.exit();

function fail(error: unknown): never {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : MISTAKEN);
  if (error instanceof ConfigError) {
    const count = error.problems.length;
    process.stderr.write(`${error.message}\n${count} mistake${count === 1 ? '' : 's'} in the configuration; nothing was started.\n`);
    process.exit(MISTAKEN);
  }
  // EPIPE: whoever read our output has gone.
  if ((error as NodeJS.ErrnoException).code !== 'EPIPE')
    process.stderr.write(`fieldbridge: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(FAILED);
}
