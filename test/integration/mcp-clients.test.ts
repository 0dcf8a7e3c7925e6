import { execFile, execSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BOILER_HOUSE_MAP, overlay, startBoilerHouse } from '../support/boiler-house.ts';
import { TestBridge, temporaryFolder, until, writeYaml } from '../support/bridge.ts';
import { MAIN } from '../support/cli.ts';
import { newerNode } from '../support/newer-node.ts';

/** The inspector wants a newer Node than the bridge, and is fetched when it is wanted, since it brings its web pages along. */
const INSPECTOR = 'npx -y -p @modelcontextprotocol/inspector@2.12.0 -c';

type Way = 'http' | 'stdio' | 'attach';

let fetched: readonly string[] | undefined;
/** A Node that is new enough, and the inspector. */
function inspector(): readonly string[] {
  fetched ??= [newerNode(), realpathSync(execSync(`${INSPECTOR} 'command -v mcp-inspector'`, { encoding: 'utf8' }).trim())];
  return fetched;
}

/** How a client gets to a bridge with the shipped map. @returns the endpoint, or the command that is a server on stdio */
async function serve(way: Way, plc: number): Promise<{ endpoint: string } | { args: string[] }> {
  if (way !== 'stdio') {
    const { endpoint } = await TestBridge.start(overlay(plc), { files: [BOILER_HOUSE_MAP] });
    return way === 'http' ? { endpoint } : { args: [MAIN, 'stdio', '--attach', endpoint] };
  }
  const folder = temporaryFolder();
  const over = writeYaml(folder, { ...overlay(plc), safety: { audit: join(folder, 'audit.jsonl') } });
  return { args: [MAIN, 'stdio', BOILER_HOUSE_MAP, over] };
}

describe.each(['http', 'stdio', 'attach'] as const)('over %s', way => {
  test('the first version of the official client lists, reads, writes and hears an update', async () => {
    const { plant, server } = await startBoilerHouse();
    const door = await serve(way, server.port);
    const client = new Client({ name: 'first', version: '1' });
    onTestFinished(() => client.close());
    const transport =
      'endpoint' in door
        ? new StreamableHTTPClientTransport(new URL(door.endpoint))
        : new StdioClientTransport({ command: process.execPath, args: door.args, stderr: 'ignore' });
    await client.connect(transport as Transport);
    expect((await client.listTools()).tools.map(tool => tool.name)).toContain('toggle_valve');
    expect((await client.listPrompts()).prompts).toHaveLength(2);
    const uri = 'plant://boiler/setpoint';
    const heard: string[] = [];
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.push(params.uri));
    await client.subscribeResource({ uri });
    // The client itself checks the answer against the schema that was listed.
    const toggled = await client.callTool({ name: 'toggle_valve', arguments: { to: true, reason: 'a test' } });
    expect(toggled.structuredContent).toMatchObject({ status: 'written' });
    expect(plant.state.feedValve).toBe(true);
    heard.length = 0;
    plant.state.setpoint = 71;
    // The first poll is news too, so the one that is meant is told by its value.
    await until(
      async () => {
        const isHeard = heard.splice(0).includes(uri);
        const { contents } = await client.readResource({ uri });
        return isHeard && (JSON.parse((contents[0] as { text: string }).text) as { value: unknown }).value;
      },
      value => value === 71,
    );
    await expect(client.callTool({ name: 'no_such_tool' })).rejects.toThrow('Unknown tool');
  });

  test("the inspector's command line lists and calls", async () => {
    const { server } = await startBoilerHouse();
    const door = await serve(way, server.port);
    const target = 'endpoint' in door ? [door.endpoint, '--transport', 'http'] : [process.execPath, ...door.args];
    const inspect = async (...args: string[]): Promise<Record<string, unknown>> => {
      const [node = '', script = ''] = inspector();
      const { stdout } = await promisify(execFile)(node, [script, '--cli', ...target, ...args, '--quiet']);
      return JSON.parse(stdout) as Record<string, unknown>;
    };
    // Strict: it finds no schema that some client could not take.
    const { tools } = await inspect('--method', 'tools/list', '--strict');
    expect((tools as { name: string }[]).map(tool => tool.name)).toContain('read_temperature');
    const called = await inspect('--method', 'tools/call', '--tool-name', 'list_points', '--tool-arg', 'query=setpoint');
    expect(called.structuredContent).toMatchObject({ points: [expect.objectContaining({ name: 'boiler.setpoint' })] });
    // What is asked travels one way like another: the rest once.
    if (way !== 'http') return;
    const { contents } = await inspect('--method', 'resources/read', '--uri', 'plant://status');
    expect((contents as { text: string }[])[0]?.text).toContain('"plc"');
    const { prompts } = await inspect('--method', 'prompts/list');
    expect(prompts).toHaveLength(2);
  }, 120_000);
});
