import { parseDuration } from '../../model/duration.ts';
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
  readonly points: readonly ModbusPoint[];
  readonly reader: DeviceReader;
  readonly writer: DeviceWriter;
  readonly poller: DevicePoller;
}

/** A Modbus connection with the devices behind it. */
export class ModbusDriver implements Driver {
  private readonly connection: ModbusConnection;
  private readonly devices: ReadonlyMap<string, ModbusDevice>;

  constructor({ connection, devices, log }: DriverContext) {
    const raw = connection.raw;
    const reconnect = (raw.reconnect ?? {}) as RawMap;
    const ms = (value: unknown, byDefault: number): number => parseDuration(value) ?? byDefault;
    this.connection = new ModbusConnection(
      {
        name: connection.name,
        type: connection.type,
        ...transportOf(connection.type, raw),
        units: new Set(devices.map(device => device.raw.unit_id ?? 1)).size,
        timeout: ms(raw.timeout, 1000),
        maxInFlight: Number(raw.max_in_flight ?? 1),
        requestDelay: ms(raw.request_delay, 0),
        connectDelay: ms(raw.connect_delay, 0),
        idleClose: parseDuration(raw.idle_close),
        reconnect: { initial: ms(reconnect.initial, 500), max: ms(reconnect.max, 30_000) },
      },
      log,
    );
    const retries = Number(raw.retries ?? 1);
    this.devices = new Map(
      devices.map((device, i) => {
        const points = device.points as readonly ModbusPoint[];
        const reader = new DeviceReader(readerSettings(device.name, device.raw, retries, connection.type), this.connection);
        const poller = new DevicePoller(device.name, this.connection, connection.name, points, reader, log, i * 5);
        return [
          device.name,
          { points, reader, poller, writer: new DeviceWriter(reader, this.connection, name => this.device(name).reader) },
        ];
      }),
    );
  }

  start(sink: (samples: readonly Sample[]) => void): void {
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

  private device(name: string): ModbusDevice {
    const device = this.devices.get(name);
    if (device === undefined) throw new Error(`no device ${name} on this connection`);
    return device;
  }
}

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
