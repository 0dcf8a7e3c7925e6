import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { expect, onTestFinished, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import { TestBridge, temporaryFolder } from '../support/bridge.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const json = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as Record<string, unknown>;

test('npm run bundle makes a bundle that the official tool takes, and that serves from a daemon or from a map', async () => {
  const folder = temporaryFolder();
  const file = join(folder, 'fieldbridge.mcpb');
  const said = execFileSync(process.execPath, [join(ROOT, 'packaging/bundle.mjs'), file], { encoding: 'utf8', cwd: folder });
  expect(said).toContain('Manifest schema validation passes!');
  execFileSync(process.execPath, [join(ROOT, 'node_modules/@anthropic-ai/mcpb/dist/cli/cli.js'), 'unpack', file, join(folder, 'bundle')]);
  const manifest = JSON.parse(readFileSync(join(folder, 'bundle/manifest.json'), 'utf8')) as {
    version: string;
    server: { entry_point: string; mcp_config: { command: string; args: string[]; env: Record<string, string> } };
    user_config: object;
  };
  expect(manifest.version).toBe(json('package.json').version);
  expect(existsSync(join(folder, 'bundle', manifest.server.entry_point))).toBe(true);
  expect(existsSync(join(folder, 'bundle/server/node_modules/vitest'))).toBe(false);

  const { server } = await startBoilerHouse();
  const { endpoint } = await TestBridge.start(overlay(server.port), { files: [BOILER_HOUSE_MAP] });
  const { args, env } = manifest.server.mcp_config;
  // As a desktop client does it: what was not filled in stays empty, or stays as it is written.
  const start = async (settings: Readonly<Record<string, string>>): Promise<string[]> => {
    const filled = Object.entries(env).map(([name, value]) => [
      name,
      value.replace(/\$\{user_config\.(\w+)\}/, (whole, key: string) => settings[key] ?? whole),
    ]);
    const client = new Client({ name: 'desktop', version: '1' });
    onTestFinished(() => client.close());
    const placed = args.map(arg => arg.replace('$'.concat('{__dirname}'), join(folder, 'bundle')));
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: placed, env: Object.fromEntries(filled), stderr: 'ignore' }),
    );
    return (await client.listTools()).tools.map(tool => tool.name);
  };
  expect(await start({ url: endpoint, token: '' })).toContain('toggle_valve');
  expect(await start({ url: '', map: BOILER_HOUSE_MAP })).toContain('read_temperature');
}, 120_000);

test('the entry for the registry of servers names this package, in this version, with arguments that it takes', () => {
  const entry = json('server.json') as { name: string; description: string; version: string; packages: Record<string, unknown>[] };
  const { name, version, mcpName } = json('package.json');
  expect(entry.name).toBe(mcpName);
  expect(entry.name).toMatch(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/);
  expect(entry.description.length).toBeLessThanOrEqual(100);
  expect(entry.version).toBe(version);
  expect(entry.packages).toEqual([
    expect.objectContaining({ registryType: 'npm', identifier: name, version, transport: { type: 'stdio' } }),
  ]);
  const help = execFileSync(process.execPath, [join(ROOT, 'dist/src/main.js'), 'stdio', '--help'], { encoding: 'utf8' });
  const [listed] = entry.packages as { packageArguments: { value?: string; name?: string }[] }[];
  for (const argument of listed?.packageArguments ?? []) expect(help).toContain(argument.name ?? argument.value);
});
