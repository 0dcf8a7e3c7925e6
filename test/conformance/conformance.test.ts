import { execFile, execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import { TestBridge, temporaryFolder } from '../support/bridge.ts';

/**
 * The conformance tool of the Model Context Protocol against the bridge with its shipped map: every scenario that needs no
 * tool or prompt made for the tool alone, in each revision that has it. Left out is `http-custom-header-server-validation`,
 * which needs a tool whose arguments are annotated to travel in headers; no map makes one.
 */
const SCENARIOS: Readonly<Record<string, readonly string[]>> = {
  '2025-06-18': [
    'server-initialize',
    'server-session-lifecycle',
    'ping',
    'logging-set-level',
    'tools-list',
    'resources-list',
    'prompts-list',
  ],
  '2025-11-25': [
    'server-initialize',
    'server-session-lifecycle',
    'ping',
    'logging-set-level',
    'tools-list',
    'resources-list',
    'prompts-list',
    'dns-rebinding-protection',
    'server-sse-multiple-streams',
  ],
  '2026-07-28': [
    'server-stateless',
    'tools-list',
    'resources-list',
    'prompts-list',
    'dns-rebinding-protection',
    'caching',
    'sep-2164-resource-not-found',
    'server-sse-multiple-streams',
    'http-header-validation',
  ],
};

const TOOL = join(dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json')), 'dist/index.js');
/** What needs a tool of the tool's own is said to be not testable, which is no failure of the bridge. */
const NOT_TESTABLE = 'Not testable: server does not list the diagnostic tool';

interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
}

/** The tool wants Node 22; the bridge itself runs on older ones. */
function newerNode(): string {
  if (Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  return execFileSync('npx', ['-y', '-p', 'node@24', 'node', '-p', 'process.execPath'], { encoding: 'utf8' }).trim();
}

/** The checks of every scenario of a revision, by scenario. */
async function run(revision: string): Promise<ReadonlyMap<string, readonly Check[]>> {
  const { server } = await startBoilerHouse();
  const bridge = await TestBridge.start(overlay(server.port), { files: [BOILER_HOUSE_MAP] });
  const folder = temporaryFolder();
  const args = [TOOL, 'server', '--url', bridge.endpoint, '--suite', 'all', '--spec-version', revision, '-o', folder];
  const node = newerNode();
  // It ends with 1, since the scenarios of tools made for it fail; which ones count, is decided here.
  await new Promise<void>(resolve => void execFile(node, args, { timeout: 100_000 }, () => resolve()));
  return new Map(
    readdirSync(folder).map(name => {
      const scenario = name.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, '');
      return [scenario, JSON.parse(readFileSync(join(folder, name, 'checks.json'), 'utf8')) as Check[]];
    }),
  );
}

describe.each(Object.entries(SCENARIOS))('in %s', (revision, scenarios) => {
  let results: ReturnType<typeof run> | undefined;

  test.each(scenarios)(
    '%s',
    async scenario => {
      results ??= run(revision);
      const checks = (await results).get(scenario);
      expect(
        checks?.some(check => check.status === 'SUCCESS'),
        `${scenario} was not run`,
      ).toBe(true);
      const failed = (checks ?? []).filter(check => check.status === 'FAILURE' && check.errorMessage?.startsWith(NOT_TESTABLE) !== true);
      expect(failed).toEqual([]);
    },
    120_000,
  );
});
