import type { DeviceEntry } from '../../model/connection.ts';
import { parseDuration } from '../../model/duration.ts';
import type { Durations } from '../../model/durations.ts';
import { ExceptionResponse, ProtocolError, TransportError } from '../../model/errors.ts';
import type { Point } from '../../model/point.ts';
import type { RawMap } from '../../model/protocol.ts';
import { bad, type Sample, sampleOf } from '../../model/sample.ts';
import type { Value } from '../../model/value.ts';
import type { WriteReceipt } from '../../model/write.ts';
import type { ConnectionStatus, DeviceStatus, Driver, DriverContext, WriteSteps } from '../driver.ts';
import { parseRange } from './address.ts';
import { ModbusConnection } from './connection.ts';
import type { ModbusPoint } from './point.ts';
import { DevicePoller } from './poller.ts';
import { DeviceReader } from './reader.ts';
import { transportOf } from './transports.ts';
import { DeviceWriter } from './writer.ts';

interface ModbusDevice {
  readonly entry: DeviceEntry;
  readonly points: readonly ModbusPoint[];
  readonly reader: DeviceReader;
  readonly writer: DeviceWriter;
  readonly poller: DevicePoller;
}

/** A Modbus connection with the devices behind it. */
export class ModbusDriver implements Driver {
  private readonly connection: ModbusConnection;
  private readonly devices = new Map<string, ModbusDevice>();
  private readonly context: DriverContext;
  private sink: ((samples: readonly Sample[]) => void) | undefined;

  constructor(context: DriverContext) {
    const { connection, devices, log } = context;
    this.context = context;
    const raw = connection.raw;
    const reconnect = (raw.reconnect ?? {}) as RawMap;
    const ms = (value: unknown, byDefault: number): number => parseDuration(value) ?? byDefault;
    this.connection = new ModbusConnection(
      {
        name: connection.name,
        type: connection.type,
        ...transportOf(connection.type, raw),
        timeout: ms(raw.timeout, 1000),
        maxInFlight: Number(raw.max_in_flight ?? 1),
        requestDelay: ms(raw.request_delay, 0),
        connectDelay: ms(raw.connect_delay, 0),
        idleClose: parseDuration(raw.idle_close),
        reconnect: { initial: ms(reconnect.initial, 500), max: ms(reconnect.max, 30_000) },
      },
      log,
    );
    for (const entry of devices) this.add(entry);
    this.connection.serve(unitsOf(devices));
  }

  start(sink: (samples: readonly Sample[]) => void): void {
    this.sink = sink;
    for (const device of this.devices.values()) device.poller.start(sink);
    this.connection.start();
  }

  async read(points: readonly Point[], signal: AbortSignal): Promise<Sample[]> {
    const members = (name: string): ModbusPoint[] => (points as readonly ModbusPoint[]).filter(point => point.device === name);
    const names = [...new Set(points.map(point => point.device))];
    const samples = await Promise.all(names.map(name => this.readDevice(name, members(name), signal)));
    return samples.flat();
  }

  async write(point: Point, value: Value, steps: WriteSteps, signal: AbortSignal): Promise<WriteReceipt | undefined> {
    const receipt = await this.device(point.device).writer.write(point as ModbusPoint, value, steps, signal);
    this.device(point.device).poller.noteAnswer();
    return receipt;
  }

  /** Devices that are the same objects go on; the others are exchanged between two of their polls. */
  async exchange(devices: readonly DeviceEntry[]): Promise<void> {
    const gone = [...this.devices.values()].filter(({ entry }) => !devices.includes(entry));
    await Promise.all(gone.map(({ poller }) => poller.stop()));
    for (const { entry } of gone) this.devices.delete(entry.name);
    this.connection.serve(unitsOf(devices));
    for (const entry of devices) if (!this.devices.has(entry.name)) this.add(entry);
  }

  stalledFor(now: number): number {
    return Math.max(0, ...[...this.devices.values()].map(({ poller }) => poller.stalledFor(now)));
  }

  get hasTried(): boolean {
    return this.connection.isLost || [...this.devices.values()].every(({ poller }) => poller.hasTried);
  }

  get roundTrips(): Durations {
    return this.connection.roundTrips;
  }

  connectionStatus(): ConnectionStatus {
    return this.connection.status();
  }

  deviceStatus(): DeviceStatus[] {
    return [...this.devices.values()].map(device => device.poller.status());
  }

  async stop(): Promise<void> {
    await Promise.all([this.connection.stop(), ...[...this.devices.values()].map(device => device.poller.stop())]);
  }

  private async readDevice(name: string, points: readonly ModbusPoint[], signal: AbortSignal): Promise<Sample[]> {
    const { reader, poller } = this.device(name);
    try {
      const samples = await reader.read(points, 'fresh', signal);
      poller.noteAnswer();
      return samples;
    } catch (error) {
      if (error instanceof TransportError && error.kind === 'cancelled') throw error;
      const reading =
        error instanceof ExceptionResponse
          ? bad('exception', { code: error.exception, name: error.exceptionName })
          : error instanceof TransportError && error.kind === 'timeout'
            ? bad('timeout')
            : bad('no_connection');
      if (!(error instanceof ExceptionResponse || error instanceof TransportError || error instanceof ProtocolError)) throw error;
      return points.map(point => sampleOf(point, reading));
    }
  }

  private add(entry: DeviceEntry): void {
    const { connection, log } = this.context;
    const retries = Number(connection.raw.retries ?? 1);
    const points = entry.points as readonly ModbusPoint[];
    const reader = new DeviceReader(readerSettings(entry.name, entry.raw, retries, connection.type), this.connection);
    const poller = new DevicePoller(entry.name, this.connection, connection.name, points, reader, log, this.devices.size * 5);
    const writer = new DeviceWriter(reader, this.connection, name => this.device(name).reader);
    this.devices.set(entry.name, { entry, points, reader, poller, writer });
    if (this.sink !== undefined) poller.start(this.sink);
  }

  private device(name: string): ModbusDevice {
    const device = this.devices.get(name);
    if (device === undefined) throw new Error(`no device ${name} on this connection`);
    return device;
  }
}

const unitsOf = (devices: readonly DeviceEntry[]): number => new Set(devices.map(({ raw }) => raw.unit_id ?? 1)).size;

export function readerSettings(name: string, raw: RawMap, retries: number, type: string): DeviceReader['settings'] {
  const base = raw.addressing === 'one_based' ? 1 : 0;
  return {
    name,
    unit: Number(raw.unit_id ?? 1),
    broadcast: raw.unit_id === 0 && type.startsWith('modbus-rtu'),
    retries,
    maxRegisters: Number(raw.max_registers_per_read ?? 125),
    maxBits: Number(raw.max_bits_per_read ?? 2000),
    maxGap: typeof raw.max_gap === 'number' ? raw.max_gap : undefined,
    unreadable: ((raw.unreadable ?? []) as string[]).flatMap(text => parseRange(text, base) ?? []),
  };
}
