export interface SnippetParts {
  /** The HTTP endpoint. */
  readonly endpoint: string;
  /** How fieldbridge is started. */
  readonly program: readonly [string, ...string[]];
  /** The map, for a bridge of the client's own. */
  readonly files: readonly string[];
}

export interface Snippet {
  readonly client: string;
  readonly transport: 'http' | 'stdio';
  /** Where it is pasted. */
  readonly where: string;
  readonly text: string;
}

const json = (value: object): string => JSON.stringify(value, null, 2);

/** What to paste into the known MCP clients, over both transports. */
export function clientSnippets({ endpoint, program: [program, ...first], files }: SnippetParts): Snippet[] {
  const start = (...args: readonly string[]) => ({ command: program, args: [...first, 'stdio', ...args] });
  const stdio = start(...files);
  const quoted = [stdio.command, ...stdio.args]
    .map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(' ');
  const desktop = 'claude_desktop_config.json';
  return [
    { client: 'Claude Desktop', transport: 'stdio', where: desktop, text: json({ mcpServers: { fieldbridge: stdio } }) },
    {
      client: 'Claude Desktop',
      transport: 'http',
      where: `${desktop} (which starts a program that joins it)`,
      text: json({ mcpServers: { fieldbridge: start('--attach', endpoint) } }),
    },
    { client: 'Claude Code', transport: 'http', where: 'a shell', text: `claude mcp add --transport http fieldbridge ${endpoint}` },
    { client: 'Claude Code', transport: 'stdio', where: 'a shell', text: `claude mcp add fieldbridge -- ${quoted}` },
    {
      client: 'VS Code',
      transport: 'http',
      where: '.vscode/mcp.json',
      text: json({ servers: { fieldbridge: { type: 'http', url: endpoint } } }),
    },
    {
      client: 'VS Code',
      transport: 'stdio',
      where: '.vscode/mcp.json',
      text: json({ servers: { fieldbridge: { type: 'stdio', ...stdio } } }),
    },
    { client: 'Cursor', transport: 'http', where: '~/.cursor/mcp.json', text: json({ mcpServers: { fieldbridge: { url: endpoint } } }) },
    { client: 'Cursor', transport: 'stdio', where: '~/.cursor/mcp.json', text: json({ mcpServers: { fieldbridge: stdio } }) },
    {
      client: 'Codex',
      transport: 'http',
      where: '~/.codex/config.toml',
      text: `[mcp_servers.fieldbridge]\nurl = ${JSON.stringify(endpoint)}`,
    },
    {
      client: 'Codex',
      transport: 'stdio',
      where: '~/.codex/config.toml',
      // JSON's texts and lists of texts are TOML's.
      text: `[mcp_servers.fieldbridge]\ncommand = ${JSON.stringify(stdio.command)}\nargs = ${JSON.stringify(stdio.args)}`,
    },
    {
      client: 'Gemini CLI',
      transport: 'http',
      where: '~/.gemini/settings.json',
      text: json({ mcpServers: { fieldbridge: { httpUrl: endpoint } } }),
    },
    { client: 'Gemini CLI', transport: 'stdio', where: '~/.gemini/settings.json', text: json({ mcpServers: { fieldbridge: stdio } }) },
  ];
}
