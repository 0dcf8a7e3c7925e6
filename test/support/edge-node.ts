import { newClient } from 'sparkplug-client';
import { onTestFinished } from 'vitest';

type Client = ReturnType<typeof newClient>;
type Payload = Parameters<Client['publishNodeBirth']>[0];
export type Metrics = NonNullable<Payload['metrics']>;

/** An edge node of the Eclipse Tahu project's client, with one device, that gives births as it is asked to. */
export class EdgeNode {
  readonly client: Client;
  births = 0;
  readonly commands: { readonly device: string | undefined; readonly metrics: Metrics }[] = [];
  private readonly node: () => Metrics;
  private readonly devices: Readonly<Record<string, () => Metrics>>;

  private constructor(client: Client, node: () => Metrics, devices: EdgeNode['devices']) {
    this.client = client;
    this.node = node;
    this.devices = devices;
    client.on('birth', () => this.birth());
    client.on('ncmd', payload => {
      this.commands.push({ device: undefined, metrics: payload.metrics ?? [] });
      if (payload.metrics?.some(metric => metric.name === 'Node Control/Rebirth' && metric.value === true)) this.birth();
    });
    client.on('dcmd', (device, payload) => void this.commands.push({ device, metrics: payload.metrics ?? [] }));
  }

  static start(url: string, node: () => Metrics, devices: EdgeNode['devices']): EdgeNode {
    const client = newClient({
      serverUrl: url,
      username: '',
      password: '',
      groupId: 'Plant 1',
      edgeNode: 'Line 2',
      clientId: `edge-${Math.random()}`,
      publishDeath: true,
    });
    client.on('error', () => undefined);
    onTestFinished(() => client.stop());
    return new EdgeNode(client, node, devices);
  }

  birth(): void {
    this.births++;
    const timestamp = Date.now();
    this.client.publishNodeBirth({ timestamp, metrics: this.node() });
    for (const [name, metrics] of Object.entries(this.devices))
      this.client.publishDeviceBirth(name, { timestamp: Date.now(), metrics: metrics() });
  }

  data(device: string, metrics: Metrics): void {
    this.client.publishDeviceData(device, { timestamp: Date.now(), metrics });
  }

  nodeData(metrics: Metrics): void {
    this.client.publishNodeData({ timestamp: Date.now(), metrics });
  }

  /** A number is used up by a message that nobody hears. */
  loseOne(): void {
    (this.client as unknown as { seq: number }).seq++;
  }

  /** Like a cable that is pulled: the broker publishes the will. */
  vanish(): void {
    (
      this.client as unknown as { client: { stream: { destroy(): void }; options: { reconnectPeriod: number } } }
    ).client.options.reconnectPeriod = 0;
    (this.client as unknown as { client: { stream: { destroy(): void } } }).client.stream.destroy();
  }
}
