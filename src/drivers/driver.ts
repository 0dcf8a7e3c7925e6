import type { ConnectionConfig, DeviceEntry } from '../model/connection.ts';
import type { Durations } from '../model/durations.ts';
import type { Point } from '../model/point.ts';
import type { Sample } from '../model/sample.ts';
import type { Value } from '../model/value.ts';
import type { WriteReceipt } from '../model/write.ts';

export interface ConnectionStatus {
  readonly name: string;
  readonly type: string;
  readonly state: 'connected' | 'connecting' | 'disconnected' | 'idle' | 'stopped';
  /** RFC 3339. */
  readonly since: string;
  readonly last_error?: string;
  readonly requests: number;
  readonly requests_per_second: number;
  readonly round_trip_ms?: number;
  readonly timeouts: number;
  readonly exceptions: number;
  readonly protocol_errors: number;
  readonly discarded_replies: number;
  /** Those whose connection went before they were answered. */
  readonly lost_requests: number;
  readonly connects: number;
  readonly queued: number;
  /** Brokers: messages by what became of them. */
  readonly messages?: Readonly<Record<string, number>>;
}

/** Whether a connection is there, or is closed only while nothing is asked. */
export const isUp = ({ state }: ConnectionStatus): boolean => state === 'connected' || state === 'idle';

export interface DeviceStatus {
  readonly name: string;
  readonly connection: string;
  readonly state: 'starting' | 'polling' | 'lost';
  readonly since: string;
  readonly last_error?: string;
  readonly cycles: number;
  readonly late_cycles: number;
  readonly cycle_ms?: number;
  readonly plan: {
    readonly requests: number;
    readonly registers: number;
    readonly unused_registers: number;
    readonly load_percent: number;
  };
}

/** What a write does between the fresh reading of the point and the request, inside its slot on the bus. */
export interface WriteSteps {
  /**
   * Looks at the present value and decides: true to send, false where nothing need be sent. Whatever it throws ends the
   * write with nothing sent.
   */
  approve(present: Sample, wire: readonly string[], beside: readonly Sample[]): Promise<boolean>;
  /** Points of the same connection that are read in the same slot, for whoever approves. */
  readonly beside?: readonly Point[];
}

/** How a protocol reads and writes the points of one connection. */
export interface Driver {
  start(sink: (samples: readonly Sample[]) => void): void;
  /** Reads now. A device in trouble gives bad samples; only an aborted signal throws. */
  read(points: readonly Point[], signal: AbortSignal): Promise<Sample[]>;
  /**
   * One write, with the present value read in the same slot; undefined where nothing was sent.
   *
   * @throws ExceptionResponse the device said no
   * @throws TransportError, ProtocolError: nothing was sent
   * @throws NoReply it was sent, and what became of it is not known
   */
  write(point: Point, value: Value, steps: WriteSteps, signal: AbortSignal): Promise<WriteReceipt | undefined>;
  /**
   * Other devices on the same connection, which stays: those that are the same objects go on. Drivers without it are made
   * anew instead.
   */
  exchange?(devices: readonly DeviceEntry[]): Promise<void>;
  /** Milliseconds for which nothing went on that should: more than a moment means that it hangs. */
  stalledFor(now: number): number;
  /** Whether every device was asked a first time, or could not be. */
  readonly hasTried: boolean;
  /** How long answers took, where somebody is asked. */
  readonly roundTrips?: Durations;
  connectionStatus(): ConnectionStatus;
  deviceStatus(): DeviceStatus[];
  /** Finishes what is on the wire and lets go of the connection. */
  stop(): Promise<void>;
}

/** A write went out and no answer came: the device may have acted. */
export class NoReply extends Error {
  readonly wire: readonly string[];
  constructor(message: string, wire: readonly string[]) {
    super(message);
    this.wire = wire;
  }
}

export interface DriverContext {
  /** A single command beside a daemon that may be running with the same map: it must not push that one aside. */
  readonly visiting: boolean;
  /** Points that a device tells of itself: new ones, or ones of the map with what it left open. */
  readonly learn: (device: string, points: readonly Point[]) => void;
  readonly connection: ConnectionConfig;
  readonly devices: readonly DeviceEntry[];
  readonly log: Log;
}

/** The part of a logger that a driver uses. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}
