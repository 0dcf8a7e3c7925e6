import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import pino from 'pino';
import { onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { Bridge } from '../../src/bridge.ts';
import { askBridge } from '../../src/cli/door.ts';
import type { PublicSample } from '../../src/model/sample.ts';
import type { WriteOutcome } from '../../src/model/write.ts';
import { readConfig } from '../../src/protocols.ts';

export type Revision = '2024-11-05' | '2025-03-26' | '2025-06-18' | '2025-11-25' | '2026-07-28';
/** Those that Streamable HTTP is served for. */
export const REVISIONS: readonly Revision[] = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'];

/** A folder that is gone after the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'fieldbridge-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function writeYaml(folder: string, map: object | string, name = 'map.yaml'): string {
  const file = join(folder, name);
  writeFileSync(file, typeof map === 'string' ? map : stringify(map, { aliasDuplicateObjects: false }));
  return file;
}

export function clientOptions(revision: Revision): ConstructorParameters<typeof Client>[1] {
  return revision === '2026-07-28' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : { supportedProtocolVersions: [revision] };
}

export interface ToolAnswer {
  readonly text: string;
  readonly isError: boolean;
  readonly structured: Record<string, unknown>;
}

/** Output schemas as they were listed to a client, by tool. */
const listed = new WeakMap<Client, Promise<ReadonlyMap<string, object>>>();
/** Compiled ones: most tests have the same, and compiling one takes as long as many polls. */
const checks = new Map<string, ValidateFunction>();

async function outputCheck(client: Client, name: string): Promise<ValidateFunction | undefined> {
  const schemas =
    listed.get(client) ??
    client
      .listTools()
      .then(({ tools }) => new Map(tools.flatMap(tool => (tool.outputSchema === undefined ? [] : [[tool.name, tool.outputSchema]]))));
  listed.set(client, schemas);
  const schema = (await schemas).get(name);
  if (schema === undefined) return undefined;
  const text = JSON.stringify(schema);
  const check = checks.get(text) ?? new Ajv2020({ strict: false, validateFormats: false }).compile(schema);
  checks.set(text, check);
  return check;
}

/** Calls a tool. Whatever it answers in any test has to be as its schema says. */
export async function callTool(client: Client, name: string, args: Record<string, unknown> = {}): Promise<ToolAnswer> {
  const result = await client.callTool({ name, arguments: args });
  if (result.structuredContent !== undefined) {
    const check = await outputCheck(client, name);
    // A tool that is not listed to this client, since it may not write, answers with a refusal.
    if (check !== undefined && !check(result.structuredContent))
      throw new Error(`the answer of ${name} is not as its schema says: ${JSON.stringify(check.errors)}`);
  }
  const [first] = result.content;
  return {
    text: first?.type === 'text' ? first.text : '',
    isError: result.isError === true,
    structured: (result.structuredContent ?? {}) as Record<string, unknown>,
  };
}

export async function readSamples(client: Client, points: readonly string[], fresh = false): Promise<PublicSample[]> {
  const { structured } = await callTool(client, 'read_points', { points, ...(fresh && { fresh }) });
  return structured.samples as PublicSample[];
}

export async function writePoint(client: Client, point: string, value: unknown, more: Record<string, unknown> = {}): Promise<WriteOutcome> {
  const { structured } = await callTool(client, 'write_point', { point, value, reason: 'test', ...more });
  return structured as unknown as WriteOutcome;
}

/** Everything of a test that runs a bridge: it stops with the test. */
export class TestBridge {
  readonly endpoint: string;
  readonly folder: string;

  private readonly bridge: Bridge;
  private readonly files: readonly string[];

  private constructor(bridge: Bridge, endpoint: string, folder: string, files: readonly string[]) {
    this.bridge = bridge;
    this.files = files;
    this.endpoint = endpoint;
    this.folder = folder;
  }

  /** Before the end of the test, where that is what it is about. */
  async stop(): Promise<void> {
    await this.bridge.stop();
  }

  /** @param map without what every test has alike: a name, a listener on any port, an audit file of its own */
  static async start(
    map: object | string,
    options: { readonly readOnly?: boolean; readonly files?: readonly string[] } = {},
  ): Promise<TestBridge> {
    const folder = temporaryFolder();
    // Tests ask faster than people's assistants do.
    const common = {
      bridge: { name: 'test' },
      http: { listen: '127.0.0.1:0', limits: { requests_per_second: 10_000 } },
      safety: { audit: join(folder, 'audit.jsonl') },
      log: { level: 'silent' },
    };
    // A shipped map has a port of its own, which only one test could have.
    const files = [...(options.files ?? []), writeYaml(folder, common, 'common.yaml'), writeYaml(folder, map)];
    const bridge = await Bridge.create(readConfig(files), {
      version: '0.0.0',
      readOnly: options.readOnly === true,
      log: pino({ level: 'silent' }),
    });
    const test = new TestBridge(bridge, await bridge.listen(), folder, files);
    onTestFinished(() => bridge.stop());
    bridge.start();
    return test;
  }

  /** A person approves a write that waits, at the control door. */
  async decide(id: string): Promise<unknown> {
    return (await askBridge(`${this.auditFile}.control`, { ask: 'approve', id, by: 'anna' })).outcome;
  }

  /** Another map in place of the one that it was started with, as a reload takes it up. */
  async reload(map: object | string): Promise<void> {
    writeYaml(this.folder, map);
    await this.bridge.reload(readConfig(this.files));
  }

  /** Sessions and streams of clients over HTTP that are open now. */
  get open(): { readonly sessions: number; readonly streams: number } {
    return this.bridge.clients;
  }

  get auditFile(): string {
    return join(this.folder, 'audit.jsonl');
  }

  async client(revision?: Revision, token?: string): Promise<Client> {
    return await connectTo(this.endpoint, revision, token);
  }
}

/** A client of a bridge that runs; it goes with the test. */
export async function connectTo(endpoint: string, revision: Revision = '2026-07-28', token?: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, clientOptions(revision));
  const authorized = token === undefined ? {} : { requestInit: { headers: { authorization: `Bearer ${token}` } } };
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), authorized));
  onTestFinished(() => client.close());
  return client;
}

/** Asks again and again until the answer pleases, or says what it last was. */
export async function until<T>(ask: () => Promise<T> | T, pleases: (answer: T) => boolean, within = 30_000): Promise<T> {
  const deadline = performance.now() + within;
  for (;;) {
    const answer = await ask();
    if (pleases(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`not within ${within} ms; last: ${JSON.stringify(answer)}`);
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}

/** Samples of points, as soon as all of them are good. */
export const goodOnes = (client: Client, points: readonly string[]): Promise<PublicSample[]> =>
  until(
    () => readSamples(client, points),
    samples => samples.every(({ quality }) => quality === 'good'),
  );

/** A map of one device on a Modbus/TCP server of this machine, which may be busy for a while. */
export function deviceMap(
  port: number,
  points: object,
  more: { readonly device?: object; readonly connection?: object; readonly [key: string]: unknown } = {},
): object {
  const { device, connection, ...rest } = more;
  return {
    connections: {
      plc: { type: 'modbus-tcp', host: '127.0.0.1', port, timeout: '300ms', reconnect: { initial: '50ms', max: '200ms' }, ...connection },
    },
    devices: { d: { connection: 'plc', poll_interval: '50ms', stale_after: '1s', ...device, points } },
    ...rest,
  };
}
