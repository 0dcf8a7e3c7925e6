import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import { TestBridge, temporaryFolder } from '../support/bridge.ts';
import { startFixtureServer } from '../support/fixture-server.ts';
import { newerNode } from '../support/newer-node.ts';

type Lists = Readonly<Record<string, readonly string[]>>;

const OLD = ['server-initialize', 'server-session-lifecycle', 'ping', 'logging-set-level'];
const LISTS = ['tools-list', 'resources-list', 'prompts-list'];

/** Every scenario that needs no tool or prompt made for it alone: against the bridge with its shipped map. */
const OF_THE_BRIDGE: Lists = {
  '2025-03-26': ['server-session-lifecycle'],
  '2025-06-18': [...OLD, ...LISTS],
  '2025-11-25': [...OLD, ...LISTS, 'dns-rebinding-protection', 'server-sse-multiple-streams'],
  '2026-07-28': [
    'server-stateless',
    ...LISTS,
    'dns-rebinding-protection',
    'caching',
    'sep-2164-resource-not-found',
    'server-sse-multiple-streams',
    'http-header-validation',
    'http-custom-header-server-validation',
  ],
};

const FIXTURES = [
  'completion-complete',
  'tools-call-simple-text',
  'tools-call-image',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-mixed-content',
  'tools-call-error',
  'tools-call-with-progress',
  'resources-read-text',
  'resources-read-binary',
  'resources-templates-read',
  'prompts-get-simple',
  'prompts-get-with-args',
  'prompts-get-embedded-resource',
  'prompts-get-with-image',
];
const OLD_FIXTURES = [
  ...FIXTURES,
  'tools-call-with-logging',
  'tools-call-sampling',
  'tools-call-elicitation',
  'resources-subscribe',
  'resources-unsubscribe',
];

/** The others: against the same server, with what they want to find in place of a plant. */
const OF_FIXTURES: Lists = {
  '2025-06-18': OLD_FIXTURES,
  '2025-11-25': [...OLD_FIXTURES, 'json-schema-2020-12', 'elicitation-sep1034-defaults', 'elicitation-sep1330-enums', 'server-sse-polling'],
  '2026-07-28': [
    ...FIXTURES,
    'json-schema-2020-12',
    'server-stateless',
    'http-custom-header-server-validation',
    ...[
      'basic-elicitation',
      'basic-sampling',
      'basic-list-roots',
      'request-state',
      'multiple-input-requests',
      'multi-round',
      'missing-input-response',
      'non-tool-request',
      'result-type',
      'unsupported-methods',
      'tampered-state',
      'capability-check',
      'ignore-extra-params',
      'validate-input',
    ].map(name => `input-required-result-${name}`),
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

async function startBridge(): Promise<string> {
  const { server } = await startBoilerHouse();
  return (await TestBridge.start(overlay(server.port), { files: [BOILER_HOUSE_MAP] })).endpoint;
}

async function startFixtures(): Promise<string> {
  return (await startFixtureServer()).endpoint;
}

/** The checks of every scenario of a revision, by scenario. */
async function run(revision: string, endpoint: string): Promise<ReadonlyMap<string, readonly Check[]>> {
  const folder = temporaryFolder();
  const args = [TOOL, 'server', '--url', endpoint, '--suite', 'all', '--spec-version', revision, '-o', folder];
  const node = newerNode();
  // It ends with 1, since each server lacks what scenarios for the other want; which ones count, is decided here.
  await new Promise<void>(resolve => void execFile(node, args, { timeout: 100_000 }, () => resolve()));
  return new Map(
    readdirSync(folder).map(name => {
      const scenario = name.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, '');
      return [scenario, JSON.parse(readFileSync(join(folder, name, 'checks.json'), 'utf8')) as Check[]];
    }),
  );
}

describe.each([
  ['the bridge', OF_THE_BRIDGE, startBridge],
  ['fixtures', OF_FIXTURES, startFixtures],
] as const)('with %s', (_name, lists, start) => {
  describe.each(Object.entries(lists))('in %s', (revision, scenarios) => {
    let results: ReturnType<typeof run> | undefined;

    test.each(scenarios)(
      '%s',
      async scenario => {
        results ??= start().then(endpoint => run(revision, endpoint));
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
});
