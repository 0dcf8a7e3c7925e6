#!/usr/bin/env node
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import type { AttachOptions } from './cli/attach.ts';
import type { VerifyOptions } from './cli/audit.ts';
import type { ClientConfigOptions } from './cli/client-config.ts';
import type { DecisionOptions } from './cli/door.ts';
import type { MoreFiles, WriteOptions } from './cli/points.ts';
import type { RunOptions } from './cli/run.ts';
import type { RawScanOptions } from './cli/scan.ts';
import type { StartOptions } from './cli/start.ts';
import type { TokenOptions } from './cli/token.ts';
import { packageVersion } from './cli/version.ts';
import { ConfigError, wordsOf } from './model/errors.ts';
import { ROLES } from './model/role.ts';

/** 0: done. 1: it could not be done. 2: the command line or the configuration is mistaken. */
const FAILED = 1;
const MISTAKEN = 2;

/** A reader that has stopped does not hold the end for longer. */
const FLUSH_WITHIN = 2000;

const program = new Command('fieldbridge')
  .description('Lets an AI assistant read sensors and actuate valves, safely')
  .version(packageVersion())
  .showSuggestionAfterError()
  .exitOverride();

const POINTS = 'names such as boiler.pressure, or globs such as boiler.*';
const MORE = ['-c, --config <files...>', 'more files, merged after it'] as const;

const TRACE = ['--trace <file>', 'write every message of both directions to this file, one JSON a line, without secrets'] as const;

const CONFIG = 'the map: a YAML file, or several that are merged in the order given';

// Each command loads what it needs and no more: checking a map takes a fraction of what serving it takes.

program
  .command('run')
  .description('poll, and serve MCP over HTTP')
  .argument('<config...>', CONFIG)
  .option('--read-only', 'write nothing, whatever the configuration says')
  .option('--watch', 'take up the configuration again when a file of it changes, as SIGHUP does')
  .option(...TRACE)
  .action(async (files: string[], options: RunOptions) => (await import('./cli/run.ts')).run(files, options));
program
  .command('stdio')
  .description('serve one MCP client on standard input and output')
  .argument('[config...]', `${CONFIG}; none with --attach`)
  .option('--attach <url>', 'join a bridge that runs already, such as http://127.0.0.1:8502/mcp, instead of starting one')
  .option('--token-file <file>', 'with --attach: the file of the bearer token; else it is taken from FIELDBRIDGE_TOKEN')
  .option('--read-only', 'write nothing, whatever the configuration says')
  .option(...TRACE)
  .action(async (files: string[], { attach, ...options }: StartOptions & AttachOptions & { attach?: string }) => {
    if ((attach === undefined) === (files.length === 0))
      program.error(
        `fieldbridge stdio: ${attach === undefined ? 'a configuration' : 'no configuration beside --attach, or no --attach,'} is expected`,
      );
    // What may be written, the bridge that runs decides.
    if (attach !== undefined && options.readOnly === true) program.error('fieldbridge stdio: --read-only belongs to the bridge that runs');
    if (attach === undefined) await (await import('./cli/stdio.ts')).stdio(files, options);
    else await (await import('./cli/attach.ts')).attach(attach, options);
  });
program
  .command('check')
  .description('say whether a configuration is sound, without opening a connection')
  .argument('<config...>', CONFIG)
  .action(async (files: string[]) => (await import('./cli/check.ts')).check(files));
program
  .command('plan')
  .description('show the requests that polling makes and how busy each wire is, without opening a connection')
  .argument('<config...>', CONFIG)
  .action(async (files: string[]) => (await import('./cli/plan.ts')).plan(files));
program
  .command('read')
  .description('read points once, now')
  .argument('<config>', 'the map')
  .argument('<point...>', POINTS)
  .option(...MORE)
  .action(async (file: string, names: string[], options: MoreFiles) => (await import('./cli/points.ts')).read(file, names, options));
program
  .command('watch')
  .description('poll, and print each change of these points')
  .argument('<config>', 'the map')
  .argument('<point...>', POINTS)
  .option(...MORE)
  .action(async (file: string, names: string[], options: MoreFiles) => (await import('./cli/points.ts')).watch(file, names, options));
program
  .command('write')
  .description('write one point, through the same gates as any client')
  .argument('<config>', 'the map')
  .argument('<point>', 'the point as device.point')
  .argument('<value>', 'the value in engineering units, a label, true or false')
  .option(...MORE)
  .option('-r, --reason <text>', 'why; goes into the audit file')
  .addOption(new Option('--role <role>', 'the role that you act in').choices(ROLES).default('operator'))
  .option('--dry-run', 'check every rule and show what would be sent, without sending it')
  .action(async (file: string, point: string, value: string, options: WriteOptions) =>
    (await import('./cli/points.ts')).write(file, point, value, options),
  );
program
  .command('decode')
  .description('show what registers would be in each type and order')
  .argument('<word...>', 'registers as they came, such as 0x4366 0x8000', parseWord)
  .addOption(new Option('--scale <number>', 'scale of numbers').argParser(parseScale).default(1))
  .action(async (words: number[], options: { scale: number }) => (await import('./cli/decode.ts')).decode(words, options));
program
  .command('scan')
  .description('look for units and the addresses that they have: reads only, gently')
  .option('--host <host>', 'a Modbus/TCP device or gateway')
  .option('--port <port>', 'its port (502)', Number)
  .option('--rtu', 'the host is a converter that speaks RTU')
  .option('--path <device>', 'a serial device instead of a host')
  .option('--baud-rate <rate>', 'of the serial device', Number, 19_200)
  .addOption(new Option('--parity <parity>', 'of the serial device').choices(['none', 'even', 'odd']).default('even'))
  .option('--units <ids>', 'unit ids, such as 1-10,17', '1-10')
  .option('--tables <tables>', 'tables to look into', 'holding,input,coil,discrete')
  .option('--addresses <span>', 'first and last address', '0-199')
  .option('--timeout <ms>', 'for one request', Number, 500)
  .option('--delay <ms>', 'silence between two requests', Number, 50)
  .action(async (options: RawScanOptions) => (await import('./cli/scan.ts')).scan(options));
program
  .command('pending')
  .description('list the writes that wait for a person')
  .argument('<config...>', CONFIG)
  .action(async (files: string[]) => (await import('./cli/door.ts')).pending(files));
for (const verdict of ['approve', 'decline'] as const)
  program
    .command(verdict)
    .description(verdict === 'approve' ? 'let a write go on that waits for a person' : 'refuse a write that waits for a person')
    .argument('<config>', 'the map')
    .argument('<id>', 'of the write, as `fieldbridge pending` shows it')
    .option(...MORE)
    .option('-r, --reason <text>', 'why; goes into the audit file')
    .action(async (file: string, id: string, options: DecisionOptions) =>
      (await import('./cli/door.ts')).decide(file, id, verdict, options),
    );
for (const kind of ['lock', 'unlock'] as const)
  program
    .command(kind)
    .description(kind === 'lock' ? 'let nothing be written, at once' : 'let writes go on')
    .argument('<config>', 'the map')
    .option(...MORE)
    .option('-r, --reason <text>', 'why; goes into the audit file, and into refusals')
    .action(async (file: string, options: DecisionOptions) => (await import('./cli/door.ts')).lock(file, kind, options));
const auditLog = program.command('audit').description('look at the record of writes');
auditLog
  .command('verify')
  .description('say whether the record is whole: nothing changed, removed, swapped or cut off')
  .argument('<config...>', CONFIG)
  .option('--head <number:seal>', 'a head from the journal, to be found in the record too', (text, before: string[] = []) => [
    ...before,
    text,
  ])
  .action(async (files: string[], options: VerifyOptions) => (await import('./cli/audit.ts')).verify(files, options));
auditLog
  .command('tail')
  .description('print the last records')
  .argument('<config...>', CONFIG)
  .option('-n, --lines <count>', 'how many', Number, 20)
  .action(async (files: string[], options: { lines: number }) => (await import('./cli/audit.ts')).tail(files, options));
auditLog
  .command('show')
  .description('print everything about one write')
  .argument('<config>', 'the map')
  .argument('<audit-id>', 'the id that the write was answered with')
  .option(...MORE)
  .action(async (file: string, id: string, options: MoreFiles) => (await import('./cli/audit.ts')).show(file, id, options.config ?? []));
program
  .command('token')
  .description('make a bearer token for a client of the HTTP listener, or for a person who approves')
  .argument('<name>', 'names the caller in the record')
  .addOption(new Option('--role <role>', 'what it may do').choices(ROLES).default('viewer'))
  .option('--approves', 'a person decides about writes that wait with it, and it opens no MCP')
  .action(async (name: string, options: TokenOptions) => (await import('./cli/token.ts')).makeToken(name, options));
program
  .command('client-config')
  .description('print what to paste into each known MCP client')
  .argument('<config...>', CONFIG)
  .option('--client <name>', 'one client alone, such as "Claude Code"')
  .addOption(new Option('--transport <transport>', 'one transport alone').choices(['http', 'stdio']))
  .action(async (files: string[], options: ClientConfigOptions) => (await import('./cli/client-config.ts')).clientConfig(files, options));
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
// What still holds the event loop has nothing to finish any more, but what was printed shall be out: to whoever reads it.
await Promise.race([new Promise(resolve => process.stdout.write('', resolve)), new Promise(resolve => setTimeout(resolve, FLUSH_WITHIN))]);
process.exit();

/** A word as a register list or a Modbus master prints it. */
function parseWord(text: string, before: readonly number[] = []): number[] {
  const word = /^(0x[\da-f]{1,4}|\d{1,5})$/i.test(text) ? Number(text) : Number.NaN;
  if (!(word <= 0xffff)) throw new InvalidArgumentError('expected registers as 0 to 65535 or 0x0000 to 0xffff.');
  return [...before, word];
}

function parseScale(text: string): number {
  const scale = Number(text);
  if (!Number.isFinite(scale) || scale === 0) throw new InvalidArgumentError('expected a number other than 0.');
  return scale;
}

function fail(error: unknown): never {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : MISTAKEN);
  if (error instanceof ConfigError) {
    const count = error.problems.length;
    process.stderr.write(`${error.message}\n${count} mistake${count === 1 ? '' : 's'} in the configuration; nothing was started.\n`);
    process.exit(MISTAKEN);
  }
  // EPIPE: whoever read our output has gone.
  if ((error as NodeJS.ErrnoException).code !== 'EPIPE') process.stderr.write(`fieldbridge: ${wordsOf(error)}\n`);
  process.exit(FAILED);
}
