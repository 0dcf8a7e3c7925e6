import { randomUUID } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import type { Logger } from 'pino';
import type { Config } from './config/config.ts';
import { AuditLog } from './control/audit/log.ts';
import { Control } from './control/control.ts';
import { ControlDoor } from './control/door.ts';
import { Field } from './control/field.ts';
import type { Driver, DriverContext, Log } from './drivers/driver.ts';
import { ModbusDriver } from './drivers/modbus/driver.ts';
import { MqttDriver } from './drivers/mqtt/driver.ts';
import { HttpListener } from './http/listener.ts';
import { Catalogue } from './mcp/catalogue.ts';
import { McpHttp } from './mcp/http.ts';
import { findPoints, unknownText } from './mcp/lookup.ts';
import { Notices } from './mcp/notices.ts';
import { SealedStates } from './mcp/sealed-state.ts';
import { serveOnStdio } from './mcp/stdio.ts';
import { Subscriptions } from './mcp/subscriptions.ts';
import { Trace } from './mcp/trace.ts';
import type { Point } from './model/point.ts';
import type { Sample } from './model/sample.ts';
import type { WriteOutcome, WriteRequest } from './model/write.ts';
import { announce } from './northbound/availability.ts';
import { JsonPublisher } from './northbound/json-publisher.ts';
import type { Publisher } from './northbound/publisher.ts';
import { SparkplugPublisher } from './northbound/sparkplug-publisher.ts';
import { History } from './store/history.ts';
import { LiveValues } from './store/live-values.ts';

/** The driver of each type of connection. */
const DRIVERS: Readonly<Record<string, new (context: DriverContext) => Driver>> = {
  'modbus-tcp': ModbusDriver,
  'modbus-udp': ModbusDriver,
  'modbus-rtu': ModbusDriver,
  'modbus-rtu-over-tcp': ModbusDriver,
  mqtt: MqttDriver,
};

export interface BridgeOptions {
  readonly version: string;
  readonly readOnly: boolean;
  /** A command of its own beside a daemon: it publishes nothing, and takes nobody's place. */
  readonly visiting?: boolean;
  readonly log: Logger;
  /** A file for every message of every client. */
  readonly trace?: string;
}

/** A running bridge: the drivers, what they found, and the doors for clients. */
export class Bridge {
  private readonly config: Config;
  private readonly log: Logger;
  private readonly drivers: readonly Driver[];
  private readonly publishers: readonly Publisher[];
  private readonly live: LiveValues;
  private readonly history: History;
  private readonly notices = new Notices();
  private readonly subscriptions: Subscriptions;
  private readonly audit: AuditLog | undefined;
  private readonly control: Control;
  private readonly parts: {
    readonly catalogue: Catalogue;
    readonly field: Field;
    readonly log: Logger;
    readonly notices: Notices;
    readonly states: SealedStates;
    readonly trace?: Trace;
  };
  private door: Promise<ControlDoor | undefined> | undefined;
  private http: { readonly listener: HttpListener; readonly mcp: McpHttp } | undefined;

  private constructor(config: Config, options: BridgeOptions, audit: AuditLog | undefined, trace: Trace | undefined) {
    const { log } = options;
    this.config = config;
    this.log = log;
    this.audit = audit;
    this.live = new LiveValues(config.plant);
    this.history = new History(config.history.keep, config.history.maxSamples);
    const visiting = options.visiting === true;
    const drivers = config.connections.flatMap(connection => {
      const devices = config.devices.filter(device => device.connection === connection.name);
      const Kind = DRIVERS[connection.type];
      const isUsed = devices.length > 0 || (!visiting && config.availability.has(connection.name));
      const publishes = !visiting && config.publish.some(spec => spec.connection === connection.name);
      if (Kind === undefined || !(isUsed || publishes)) return [];
      const context = {
        connection,
        devices,
        visiting,
        log: this.tellingLog(connection.name),
        learn: (device: string, points: readonly Point[]) => this.learn(device, points),
      };
      return [[connection.name, new Kind(context)] as const];
    });
    this.drivers = drivers.map(([, driver]) => driver);
    this.publishers = visiting ? [] : this.makePublishers(new Map(drivers));
    const field = new Field(config.plant, this.live, new Map(drivers));
    const control = new Control(field, { ...config.safety, readOnly: options.readOnly }, audit, log);
    this.control = control;
    const identity = {
      name: config.bridge.name,
      version: options.version,
      ...(config.bridge.description !== undefined && { description: config.bridge.description }),
    };
    this.subscriptions = new Subscriptions(field, this.live, config.bridge.notifyInterval);
    this.parts = {
      catalogue: new Catalogue(identity, { field, control, publishers: this.publishers, history: this.history }, randomUUID()),
      field,
      log,
      notices: this.notices,
      states: new SealedStates(config.safety.confirmTimeout),
      ...(trace !== undefined && { trace }),
    };
  }

  /** @throws AuditError where writes are enabled and can not be recorded */
  static async create(config: Config, options: BridgeOptions): Promise<Bridge> {
    const audit =
      config.safety.writes !== 'disabled' && !options.readOnly
        ? await AuditLog.open(config.safety.audit, options.log.child({ audit: config.safety.audit.path }))
        : undefined;
    const trace = options.trace === undefined ? undefined : await Trace.open(options.trace);
    const bridge = new Bridge(config, options, audit, trace);
    await Promise.all([bridge.control.takeUp(), ...bridge.publishers.map(publisher => publisher.open())]);
    return bridge;
  }

  /** Starts polling, and publishing. */
  start(): void {
    this.live.onChange(({ sample }) => {
      this.history.append(sample);
      for (const publisher of this.publishers) publisher.changed(sample);
    });
    for (const driver of this.drivers) driver.start(samples => this.live.update(samples));
    if (this.audit === undefined) return;
    this.control.start();
    this.door = ControlDoor.open(this.config.safety.door, this.control, this.log);
  }

  /** Opens the HTTP listener. @returns the address of the endpoint. @throws ListenError */
  async listen(): Promise<string> {
    const mcp = new McpHttp(this.parts, this.subscriptions, this.config.http.limits);
    const listener = new HttpListener(this.config.http, mcp, this.control, this.log);
    this.http = { listener, mcp };
    const endpoint = await listener.start();
    this.log.info({ endpoint }, `serving MCP at ${endpoint}`);
    return endpoint;
  }

  /** Sessions and streams of clients over HTTP that are open now. */
  get clients(): { readonly sessions: number; readonly streams: number } {
    return this.http?.mcp.open ?? { sessions: 0, streams: 0 };
  }

  /** Serves one client on a pair of streams. @returns when it has ended */
  async serve(input: Readable, output: Writable): Promise<void> {
    await serveOnStdio(this.parts, this.subscriptions, { name: 'stdio', role: this.config.stdio.role }, { input, output }).ended;
  }

  /** Points by name or glob; what is unknown is said in words. */
  find(names: readonly string[]): { readonly points: readonly Point[]; readonly unknown: string } {
    const { points, unknown } = findPoints(this.config.plant, names);
    return { points, unknown: unknownText(unknown) };
  }

  /** Asks the devices now, whether or not polling was started. */
  readNow(points: readonly Point[]): Promise<Sample[]> {
    return this.parts.field.readNow(points, new AbortController().signal);
  }

  /** One write through the gates. */
  write(point: Point, value: unknown, request: Omit<WriteRequest, 'point' | 'value'>): Promise<WriteOutcome> {
    return this.control.submit({ ...request, point, value }, new AbortController().signal);
  }

  /** A connection's log, whose news clients may ask to hear too. */
  private tellingLog(connection: string): Log {
    const log = this.log.child({ connection });
    return {
      debug: (fields, message) => log.debug(fields, message),
      info: (fields, message) => {
        log.info(fields, message);
        this.notices.say({ level: 'info', logger: connection, text: message });
      },
      warn: (fields, message) => {
        log.warn(fields, message);
        this.notices.say({ level: 'warning', logger: connection, text: message });
      },
    };
  }

  /** What goes to brokers shares the session of its connection with what comes from there. */
  private makePublishers(drivers: ReadonlyMap<string, Driver>): Publisher[] {
    const { config, live, log } = this;
    for (const [name, availability] of config.availability) {
      const driver = drivers.get(name);
      if (driver instanceof MqttDriver) announce(driver.session, availability);
    }
    return config.publish.flatMap(spec => {
      const driver = drivers.get(spec.connection);
      if (!(driver instanceof MqttDriver)) return [];
      const context = {
        bridge: config.bridge.name,
        log: log.child({ publish: spec.name }),
        current: () =>
          [...config.plant.points.values()]
            .filter(spec.includes)
            .map(point => live.get(point))
            .filter(sample => sample.reason !== 'initialising'),
      };
      return spec.format === 'json'
        ? new JsonPublisher(spec, driver.session, context)
        : new SparkplugPublisher(spec, driver.session, context);
    });
  }

  private learn(device: string, points: readonly Point[]): void {
    this.config.plant.learn(device, points);
    for (const point of points) this.live.add(point);
    this.subscriptions.listChanged();
  }

  onChange(listener: (sample: Sample) => void): void {
    this.live.onChange(change => listener(change.sample));
  }

  /** Takes no more calls, finishes what is on the wire, and lets go of everything. */
  async stop(): Promise<void> {
    this.log.info({}, 'stopping');
    this.subscriptions.stop();
    await (await this.door)?.close();
    await this.control.stop();
    await Promise.all(this.drivers.map(driver => driver.stop()));
    await this.http?.mcp.close();
    await this.http?.listener.stop();
    this.live.stop();
    await this.audit?.close();
    await this.parts.trace?.close();
  }
}
