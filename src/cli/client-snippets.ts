export interface SnippetParts {
  /** The HTTP endpoint. */
  readonly endpoint: string;
  /** Program and arguments that serve one client on standard input and output. */
  readonly command: readonly [string, ...string[]];
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
export function clientSnippets({ endpoint, command: [program, ...args] }: SnippetParts): Snippet[] {
  const stdio = { command: program, args };
  const quoted = [program, ...args].map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(' ');
  const desktop = 'claude_desktop_config.json';
  return [
    { client: 'Claude Desktop', transport: 'stdio', where: desktop, text: json({ mcpServers: { fieldbridge: stdio } }) },
    {
      client: 'Claude Desktop',
      transport: 'http',
      where: `${desktop} (it reaches a local address through mcp-remote)`,
      text: json({ mcpServers: { fieldbridge: { command: 'npx', args: ['-y', 'mcp-remote', endpoint] } } }),
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
  ];
}
