import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import { TestBridge } from '../support/bridge.ts';

/**
 * The conformance tool of the Model Context Protocol against the bridge with its shipped map: every scenario that needs no
 * tool or prompt made for the tool alone, in each revision that has it. Left out is `http-custom-header-server-validation`,
 * which needs a tool whose arguments are annotated to travel in headers; no map makes one.
 */
const SCENARIOS: Readonly<Record<string, readonly string[]>> = {
  'server-initialize': ['2025-06-18', '2025-11-25'],
  'server-session-lifecycle': ['2025-06-18', '2025-11-25'],
  'server-stateless': ['2026-07-28'],
  ping: ['2025-06-18', '2025-11-25'],
  'logging-set-level': ['2025-06-18', '2025-11-25'],
  'tools-list': ['2025-06-18', '2025-11-25', '2026-07-28'],
  'resources-list': ['2025-06-18', '2025-11-25', '2026-07-28'],
  'prompts-list': ['2025-06-18', '2025-11-25', '2026-07-28'],
  'dns-rebinding-protection': ['2025-11-25', '2026-07-28'],
  caching: ['2026-07-28'],
  'sep-2164-resource-not-found': ['2026-07-28'],
  'server-sse-multiple-streams': ['2025-11-25', '2026-07-28'],
  'http-header-validation': ['2026-07-28'],
};

const TOOL = join(dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json')), 'dist/index.js');

/** The tool wants Node 22; the bridge itself runs on older ones. */
function newerNode(): string {
  if (Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  return execFileSync('npx', ['-y', '-p', 'node@24', 'node', '-p', 'process.execPath'], { encoding: 'utf8' }).trim();
}

let node = '';
const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-conformance-'));

beforeAll(() => {
  node = newerNode();
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(scenario: string, revision: string, url: string): Promise<{ readonly code: number; readonly output: string }> {
  const args = [TOOL, 'server', '--url', url, '--scenario', scenario, '--spec-version', revision];
  return new Promise(resolve => {
    execFile(node, args, { cwd: folder, timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: `${stdout}${stderr}` });
    });
  });
}

describe.each(Object.entries(SCENARIOS))('%s', (scenario, revisions) => {
  test.each(revisions)(
    'in %s',
    async revision => {
      const { server } = await startBoilerHouse();
      const bridge = await TestBridge.start(overlay(server.port), { files: [BOILER_HOUSE_MAP] });
      const { code, output } = await run(scenario, revision, bridge.endpoint);
      // What needs a tool of the tool's own is said to be not testable, which is no failure of the bridge.
      const errors = [...output.matchAll(/^\s+Error: (.*)$/gm)].map(match => match[1] ?? '');
      expect(
        errors.filter(error => !error.startsWith('Not testable: server does not list the diagnostic tool')),
        output,
      ).toEqual([]);
      expect(output).toMatch(errors.length === 0 ? /Passed: \d+\/\d+, 0 failed/ : new RegExp(`Passed: \\d+/\\d+, ${errors.length} failed`));
      expect(code === 0 || errors.length > 0, output).toBe(true);
    },
    60_000,
  );
});
