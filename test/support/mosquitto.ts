import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import mqtt, { type MqttClient } from 'mqtt';
import { onTestFinished } from 'vitest';
import { temporaryFolder, until } from './bridge.ts';
import { freePort } from './free-port.ts';

/** A broker of Eclipse Mosquitto on any free port, that can be killed and started again. */
export class Mosquitto {
  readonly port: number;
  /** Of its own: configuration, and whatever else it is given. */
  readonly folder: string;
  private readonly config: string;
  private child: ChildProcess | undefined;
  private output = '';

  private constructor(port: number, folder: string, config: string) {
    this.port = port;
    this.folder = folder;
    this.config = config;
  }

  /**
   * @param lines more of its configuration; without any, everybody may do everything
   * @param prepare puts files into the broker's folder that its configuration names
   */
  static async start(
    lines: readonly string[] | ((folder: string) => readonly string[]) = ['allow_anonymous true'],
    prepare: (folder: string) => void = () => undefined,
  ): Promise<Mosquitto> {
    const folder = temporaryFolder();
    prepare(folder);
    const port = await freePort();
    const config = join(folder, 'mosquitto.conf');
    const more = typeof lines === 'function' ? lines(folder) : lines;
    writeFileSync(config, [`listener ${port} 127.0.0.1`, 'user root', ...more].join('\n'));
    const broker = new Mosquitto(port, folder, config);
    onTestFinished(() => broker.kill());
    await broker.run();
    return broker;
  }

  async run(): Promise<void> {
    const child = spawn('mosquitto', ['-c', this.config, '-v'], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    this.output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        this.output = (this.output + chunk.toString()).slice(-2_000_000);
      });
    }
    await until(
      () => this.output,
      text => text.includes('running'),
    );
  }

  /** @param signal SIGTERM ends it in order */
  kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): void {
    this.child?.kill(signal);
    this.child = undefined;
  }

  /** What the broker has said of late. */
  get log(): string {
    return this.output;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  /** The other side: somebody who publishes and listens. */
  async client(options: mqtt.IClientOptions = {}): Promise<MqttClient> {
    const client = await mqtt.connectAsync(this.url, { reconnectPeriod: 0, ...options });
    client.on('error', () => undefined);
    onTestFinished(() => void client.end(true));
    return client;
  }
}
