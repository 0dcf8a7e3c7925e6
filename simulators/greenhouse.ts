import mqtt, { type IPublishPacket, type MqttClient } from 'mqtt';

const AIR_KJ_PER_K = 400;
const LOSS_KW_PER_K = 0.35;
const WINDOW_KW_PER_K = 2.5;
const LAMP_KW = 4;
const SUN_KW = 9;
const OUTSIDE_C = 9;
const OUTSIDE_HUMIDITY = 65;
const PERCENT_PER_S = 25;

/** Air, soil, window and lamp of a greenhouse in physical units: the sun heats it, the window cools and dries it. */
export class Greenhouse {
  air = 24;
  humidity = 70;
  soilMoisture = 31.5;
  soilTemperature = 17.5;
  /** Percent that the window is open, and where its motor takes it. */
  window = 20;
  windowTarget = 20;
  lamp = false;

  /** Lets seconds pass. */
  advance(seconds: number): void {
    const open = this.window / 100;
    const heat = SUN_KW + (this.lamp ? LAMP_KW : 0) - (LOSS_KW_PER_K + WINDOW_KW_PER_K * open) * (this.air - OUTSIDE_C);
    this.air += (heat * seconds) / AIR_KJ_PER_K;
    this.humidity += ((OUTSIDE_HUMIDITY + 20 * (1 - open) - this.humidity) * seconds) / 300;
    this.soilTemperature += ((this.air - this.soilTemperature) * seconds) / 7200;
    this.soilMoisture = Math.max(5, this.soilMoisture - seconds * 1e-4);
    const way = this.windowTarget - this.window;
    this.window += Math.sign(way) * Math.min(Math.abs(way), PERCENT_PER_S * seconds);
  }
}

/** The devices of the greenhouse at a broker, as config/greenhouse.yaml maps them. */
export class GreenhouseDevices {
  readonly plant: Greenhouse;
  private readonly client: MqttClient;
  private timer: NodeJS.Timeout | undefined;

  private constructor(plant: Greenhouse, client: MqttClient) {
    this.plant = plant;
    this.client = client;
  }

  /** @throws Error where there is no broker */
  static async start(plant: Greenhouse, url: string, interval = 1000): Promise<GreenhouseDevices> {
    const will = { topic: 'greenhouse/climate/status', payload: Buffer.from('offline'), qos: 1, retain: true } as const;
    const client = await mqtt.connectAsync(url, { protocolVersion: 5, will }, false);
    const devices = new GreenhouseDevices(plant, client);
    client.on('error', () => undefined);
    client.on('message', (topic, payload, packet) => devices.onCommand(topic, payload.toString(), packet));
    await client.subscribeAsync(['greenhouse/window/set', 'greenhouse/lamp/set'], { qos: 1 });
    devices.tell(will.topic, 'online');
    devices.tellAll();
    devices.timer = setInterval(() => {
      plant.advance(interval / 1000);
      devices.tellAll();
    }, interval);
    return devices;
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    this.tell('greenhouse/climate/status', 'offline');
    await this.client.endAsync();
  }

  private tellAll(): void {
    const { air, humidity, soilMoisture, soilTemperature } = this.plant;
    const round = (value: number): number => Math.round(value * 10) / 10;
    const climate = { time: new Date().toISOString(), air: { temperature: round(air), humidity: round(humidity) } };
    this.client.publish('greenhouse/climate', JSON.stringify(climate));
    const bytes = Buffer.alloc(4);
    bytes.writeUInt16BE(Math.round(soilMoisture * 10), 0);
    bytes.writeInt16BE(Math.round(soilTemperature * 10), 2);
    this.client.publish('lora/soil-1/up', JSON.stringify({ port: 1, data: bytes.toString('base64') }));
    this.tellState();
  }

  private tellState(): void {
    this.tell('greenhouse/window', JSON.stringify({ position: Math.round(this.plant.window) }));
    this.tell('greenhouse/lamp', this.plant.lamp ? 'ON' : 'OFF');
  }

  private tell(topic: string, payload: string): void {
    this.client.publish(topic, payload, { qos: 1, retain: true });
  }

  private onCommand(topic: string, payload: string, { properties }: IPublishPacket): void {
    if (topic === 'greenhouse/lamp/set') {
      if (payload === 'ON' || payload === 'OFF') this.plant.lamp = payload === 'ON';
      this.tellState();
      return;
    }
    const position = positionOf(payload);
    if (position !== undefined) this.plant.windowTarget = position;
    const answer = position === undefined ? { accepted: false, why: 'expected a position from 0 to 100' } : { accepted: true };
    const { responseTopic, correlationData } = properties ?? {};
    if (responseTopic === undefined) return;
    this.client.publish(responseTopic, JSON.stringify(answer), {
      qos: 1,
      properties: { ...(correlationData !== undefined && { correlationData }) },
    });
  }
}

function positionOf(payload: string): number | undefined {
  try {
    const { position } = JSON.parse(payload) as { position?: unknown };
    return typeof position === 'number' && position >= 0 && position <= 100 ? position : undefined;
  } catch {
    return undefined;
  }
}
