import type { Config } from '../config/config.ts';
import { formatProblem } from '../model/errors.ts';
import { readConfig } from '../protocols.ts';

/** Reads a configuration and says on standard error what is odd about it. @throws ConfigError */
export function readConfigAloud(files: readonly string[]): Config {
  const config = readConfig(files);
  for (const warning of config.warnings) process.stderr.write(`warning: ${formatProblem(warning)}\n`);
  return config;
}
