import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { expect, onTestFinished, test } from 'vitest';
import { clientSnippets } from '../../src/cli/client-snippets.ts';
import { callTool, until } from '../support/bridge.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test('npm run demo starts plant and bridge, says what to paste, shows live values, answers a client, and ends with its children', async () => {
  const demo = spawn('npm', ['run', 'demo', '--', '0', '0'], { cwd: ROOT, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => {
    if (demo.exitCode === null && demo.pid !== undefined) process.kill(-demo.pid, 'SIGKILL');
  });
  let output = '';
  demo.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  await until(
    () => output,
    text => text.includes('live values') && text.includes('boiler.gas_valve'),
  );
  const [, endpoint = ''] = /serves MCP at (\S+)/.exec(output) ?? [];
  for (const name of ['Claude Desktop', 'Claude Code', 'VS Code', 'Cursor'])
    for (const transport of ['http', 'stdio']) expect(output).toContain(`${name}, ${transport}`);
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  expect((await callTool(client, 'read_temperature')).text).toContain('boiler.flow_temperature');
  await client.close();
  const closed = new Promise(resolve => demo.on('close', resolve));
  process.kill(-(demo.pid ?? 0), 'SIGINT');
  await closed;
  await expect(fetch(endpoint)).rejects.toThrow();
});

test('what is to be pasted is sound', () => {
  const snippets = clientSnippets({
    endpoint: 'http://127.0.0.1:8502/mcp',
    program: ['/usr/bin/node', '/a b/main.js'],
    files: ["/it's.yaml"],
  });
  expect(snippets.map(one => `${one.client} ${one.transport}`).sort()).toEqual(
    ['Claude Code', 'Claude Desktop', 'Codex', 'Cursor', 'Gemini CLI', 'VS Code'].flatMap(name => [`${name} http`, `${name} stdio`]),
  );
  for (const { text, where } of snippets) if (where.includes('.json')) expect(() => JSON.parse(text)).not.toThrow();
  expect(snippets.find(one => one.client === 'Claude Code' && one.transport === 'stdio')?.text).toBe(
    `claude mcp add fieldbridge -- /usr/bin/node '/a b/main.js' stdio '/it'\\''s.yaml'`,
  );
});
