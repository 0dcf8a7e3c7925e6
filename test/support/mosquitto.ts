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
  private readonly config: string;
  private child: ChildProcess | undefined;

  private constructor(port: number, config: string) {
    this.port = port;
    this.config = config;
  }

  /** @param lines more of its configuration; without any, everybody may do everything */
  static async start(lines: readonly string[] = ['allow_anonymous true']): Promise<Mosquitto> {
    const folder = temporaryFolder();
    const port = await freePort();
    const config = join(folder, 'mosquitto.conf');
    writeFileSync(config, [`listener ${port} 127.0.0.1`, 'user root', ...lines].join('\n'));
    const broker = new Mosquitto(port, config);
    onTestFinished(() => broker.kill());
    await broker.run();
    return broker;
  }

  async run(): Promise<void> {
    const child = spawn('mosquitto', ['-c', this.config, '-v'], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output = (output + chunk.toString()).slice(-4000);
      });
    }
    await until(
      () => output,
      text => text.includes('running'),
    );
  }

  kill(): void {
    this.child?.kill('SIGKILL');
    this.child = undefined;
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
