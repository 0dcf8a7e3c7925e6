/** One process of the benches of MCP: a bridge, or a bare server of the SDK that answers a constant. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, isInitializeRequest, Server } from '@modelcontextprotocol/server';
import type { McpReport } from './mcp-peers.ts';
import { bridgeOf } from './plant.ts';

const [role = '', plc, points] = process.argv.slice(2);

function report(open: { readonly sessions: number; readonly streams: number }): McpReport {
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  const resources = process.getActiveResourcesInfo();
  const count = (kind: RegExp): number => resources.filter(name => kind.test(name)).length;
  return { heap: heapUsed, rss, ...open, timers: count(/Timeout|Immediate/), sockets: count(/TCPSocket/) };
}

/** As the SDK's own examples serve both eras, with one tool that answers what the bridge would. */
async function bare(): Promise<string> {
  const sample = { point: 'd.p0', value: 0, quality: 'good', timestamp: new Date().toISOString(), age_ms: 12 };
  const answer = { content: [{ type: 'text' as const, text: 'd.p0 = 0 (good, 12 ms old)' }], structuredContent: { samples: [sample] } };
  const build = (): Server => {
    const server = new Server({ name: 'bare', version: '0' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/call', () => answer);
    return server;
  };
  const modern = toNodeHandler(createMcpHandler(build, { legacy: 'reject' }));
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
  const handle = async (request: IncomingMessage, response: ServerResponse, body: unknown): Promise<void> => {
    const id = request.headers['mcp-session-id'];
    if (request.headers['mcp-method'] !== undefined) return await modern(request as never, response as never, body);
    let transport = typeof id === 'string' ? sessions.get(id) : undefined;
    if (transport === undefined && isInitializeRequest(body)) {
      const made = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: sid => void sessions.set(sid, made),
      });
      transport = made;
      await build().connect(made);
    }
    await transport?.handleRequest(request, response, body);
  };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    await handle(request, response, chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString()));
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  process.on('message', () => process.send?.(report({ sessions: sessions.size, streams: 0 })));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function bridge(): Promise<string> {
  const running = await bridgeOf({
    connections: { plc: { type: 'modbus-tcp', host: '127.0.0.1', port: Number(plc) } },
    devices: {
      d: {
        connection: 'plc',
        poll_interval: '1s',
        points: {
          fast: { holding: 60_000, poll_interval: '20ms' },
          ...Object.fromEntries(Array.from({ length: Number(points) }, (_, i) => [`p${i}`, { holding: i }])),
        },
      },
    },
    http: {
      listen: '127.0.0.1:0',
      limits: { sessions: 5000, streams: 5000, connections: 20_000, streams_per_principal: 5000, requests_per_second: 100_000 },
    },
    // The past is kept for a time that passes here quickly: what it takes is no session's.
    history: { keep: '1s' },
  });
  const endpoint = await running.listen();
  running.start();
  process.on('message', () => process.send?.(report(running.clients)));
  return endpoint;
}

process.send?.(await (role === 'bare' ? bare() : bridge()));
