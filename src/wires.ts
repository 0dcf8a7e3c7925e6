import type { Config } from './config/config.ts';
import type { Driver, DriverContext, Log } from './drivers/driver.ts';
import { ModbusDriver } from './drivers/modbus/driver.ts';
import { MqttDriver } from './drivers/mqtt/driver.ts';
import type { DeviceEntry } from './model/connection.ts';
import { wordsOf } from './model/errors.ts';
import type { Point } from './model/point.ts';
import type { Sample } from './model/sample.ts';
import { announce } from './northbound/availability.ts';
import { JsonPublisher } from './northbound/json-publisher.ts';
import type { Publisher } from './northbound/publisher.ts';
import { SparkplugPublisher } from './northbound/sparkplug-publisher.ts';
import type { Fate } from './reload.ts';

/** The driver of each type of connection. */
const DRIVERS: Readonly<Record<string, new (context: DriverContext) => Driver>> = {
  'modbus-tcp': ModbusDriver,
  'modbus-udp': ModbusDriver,
  'modbus-rtu': ModbusDriver,
  'modbus-rtu-over-tcp': ModbusDriver,
  mqtt: MqttDriver,
};

export interface WiresContext {
  /** The map in force. */
  config(): Config;
  /** A command of its own beside a daemon: it publishes nothing, and takes nobody's place. */
  readonly visiting: boolean;
  /** The log of a connection, and that of a publication. */
  logOf(connection: string): Log;
  publishLogOf(publication: string): Log;
  /** The newest sample of a point. */
  newest(point: Point): Sample;
  learn(device: string, points: readonly Point[]): void;
}

/** The drivers of all connections, and what is published through them: both share one session where it is a broker's. */
export class Wires {
  /** By connection. */
  readonly drivers = new Map<string, Driver>();
  readonly publishers: Publisher[] = [];
  private readonly context: WiresContext;
  private readonly publishersOf = new Map<string, readonly Publisher[]>();
  private sink: ((samples: readonly Sample[]) => void) | undefined;

  constructor(context: WiresContext) {
    this.context = context;
    for (const { name } of context.config().connections) this.make(name);
  }

  async open(): Promise<void> {
    await Promise.all(this.publishers.map(publisher => publisher.open()));
  }

  start(sink: (samples: readonly Sample[]) => void): void {
    this.sink = sink;
    for (const driver of this.drivers.values()) driver.start(sink);
  }

  /** What becomes of each connection, where a driver that can not exchange its devices is made anew. */
  fatesOf(said: ReadonlyMap<string, Fate>): ReadonlyMap<string, Fate> {
    const canExchange = (name: string): boolean => this.drivers.get(name)?.exchange !== undefined;
    return new Map([...said].map(([name, fate]) => [name, fate === 'changed' && !canExchange(name) ? 'replaced' : fate]));
  }

  /** Finishes what is on the wire. */
  async stop(names: Iterable<string> = this.drivers.keys()): Promise<void> {
    await Promise.all([...names].map(name => this.drivers.get(name)?.stop()));
  }

  /** Connections that were stopped, as the map in force has them, if it has them. */
  remake(names: readonly string[]): void {
    for (const name of names) {
      this.drivers.delete(name);
      this.publishersOf.delete(name);
      this.make(name);
    }
    this.publishers.splice(0, this.publishers.length, ...[...this.publishersOf.values()].flat());
  }

  /** Devices of connections that stay. */
  async exchange(names: readonly string[]): Promise<void> {
    for (const name of names) await this.drivers.get(name)?.exchange?.(this.devicesOf(name));
  }

  /** Starts what was made anew. What it publishes can not be kept on the disk, if its folder can not be opened. */
  async restart(names: readonly string[]): Promise<void> {
    for (const name of names) {
      for (const publisher of this.publishersOf.get(name) ?? [])
        await publisher.open().catch(error => this.context.logOf(name).warn({}, `what is published is not kept: ${wordsOf(error)}`));
      if (this.sink !== undefined) this.drivers.get(name)?.start(this.sink);
    }
  }

  /** Resolves when every device was asked a first time, or could not be, or when the time is up. */
  async firstPolls(within: number): Promise<void> {
    const deadline = performance.now() + within;
    while ([...this.drivers.values()].some(driver => !driver.hasTried) && performance.now() < deadline)
      await new Promise(resolve => setTimeout(resolve, 20));
  }

  /** Milliseconds for which the polling of some device has hung. */
  stalledFor(now: number): number {
    return Math.max(0, ...[...this.drivers.values()].map(driver => driver.stalledFor(now)));
  }

  private make(name: string): void {
    const { context } = this;
    const config = context.config();
    const connection = config.connections.find(one => one.name === name);
    const Kind = DRIVERS[connection?.type ?? ''];
    if (connection === undefined || Kind === undefined) return;
    const { visiting } = context;
    const devices = this.devicesOf(name);
    const isUsed = devices.length > 0 || (!visiting && config.availability.has(name));
    const publishes = !visiting && config.publish.some(spec => spec.connection === name);
    if (!(isUsed || publishes)) return;
    const learn = (device: string, points: readonly Point[]): void => context.learn(device, points);
    const driver = new Kind({ connection, devices, visiting, log: context.logOf(name), learn });
    this.drivers.set(name, driver);
    if (driver instanceof MqttDriver && !visiting) this.makePublishers(name, driver);
  }

  private makePublishers(connection: string, { session }: MqttDriver): void {
    const { context } = this;
    const { bridge, availability, publish } = context.config();
    const said = availability.get(connection);
    if (said !== undefined) announce(session, said);
    const made = publish
      .filter(spec => spec.connection === connection)
      .map(spec => {
        const current = (): readonly Sample[] =>
          [...context.config().plant.points.values()]
            .filter(spec.includes)
            .map(point => context.newest(point))
            .filter(sample => sample.reason !== 'initialising');
        const parts = { bridge: bridge.name, log: context.publishLogOf(spec.name), current };
        return spec.format === 'json' ? new JsonPublisher(spec, session, parts) : new SparkplugPublisher(spec, session, parts);
      });
    this.publishersOf.set(connection, made);
    this.publishers.push(...made);
  }

  private devicesOf(connection: string): readonly DeviceEntry[] {
    return this.context.config().devices.filter(device => device.connection === connection);
  }
}
