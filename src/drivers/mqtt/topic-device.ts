import type { DeviceEntry } from '../../model/connection.ts';
import { bad, type Reading, type Sample, sampleFrom, sampleOf, uncertain } from '../../model/sample.ts';
import type { DeviceStatus } from '../driver.ts';
import { decodePayload, sourceTimeOf } from './codec.ts';
import type { Message } from './message.ts';
import type { MqttPoint } from './point.ts';
import type { BrokerSession } from './session.ts';

/** A device that speaks by plain topics: each message makes samples of the points that look at it. */
export class TopicDevice {
  private readonly name: string;
  private readonly points: readonly MqttPoint[];
  private readonly availability: { readonly online: string; readonly offline: string } | undefined;
  private readonly session: BrokerSession;
  private readonly accept: (samples: readonly Sample[]) => void;
  private offline = false;
  private since = Date.now();
  private messages = 0;

  constructor(entry: DeviceEntry, session: BrokerSession, accept: (samples: readonly Sample[]) => void) {
    this.name = entry.name;
    this.points = entry.points as readonly MqttPoint[];
    this.session = session;
    this.accept = accept;
    for (const point of this.points) {
      if (point.topic !== undefined) session.subscribe(point.topic, message => this.onMessage(point, message));
    }
    const given = entry.raw.availability as { topic: string; online?: string; offline?: string } | undefined;
    if (given !== undefined) {
      this.availability = { online: given.online ?? 'online', offline: given.offline ?? 'offline' };
      session.subscribe(given.topic, message => this.onAvailability(message.text));
    }
  }

  /** What can only be written has no value to wait for. */
  onStart(): void {
    this.accept(this.points.filter(point => point.topic === undefined).map(point => sampleOf(point, bad('not_available'))));
  }

  /** What the broker keeps to itself will never have a value. */
  onConnected(refused: readonly string[]): void {
    const forbidden = this.points.filter(point => point.topic !== undefined && refused.includes(point.topic));
    this.accept(forbidden.map(point => sampleOf(point, bad('not_available'))));
  }

  onLost(): void {
    const reading = bad('no_connection');
    this.accept(this.points.filter(point => point.topic !== undefined).map(point => sampleOf(point, reading)));
  }

  status(connection: string, connected: boolean): DeviceStatus {
    return {
      name: this.name,
      connection,
      state: !connected || this.offline ? 'lost' : this.messages === 0 ? 'starting' : 'polling',
      since: new Date(this.since).toISOString(),
      cycles: this.messages,
      late_cycles: 0,
      plan: { requests: 0, registers: 0, unused_registers: 0, load_percent: 0 },
    };
  }

  private onMessage(point: MqttPoint, message: Message): void {
    this.messages++;
    const reading = decodePayload(point, message);
    if (reading.reason === 'decode_error' && !message.oversize) this.session.counts.undecodable++;
    this.accept([this.offline ? sampleOf(point, bad('offline')) : sampleAt(point, message, reading)]);
  }

  private onAvailability(payload: string | undefined): void {
    const says = this.availability;
    if (says === undefined || (payload !== says.online && payload !== says.offline)) return;
    const offline = payload === says.offline;
    if (offline !== this.offline) this.since = Date.now();
    this.offline = offline;
    if (offline) this.accept(this.points.map(point => sampleOf(point, bad('offline'))));
  }
}

/**
 * The sample with the time that the source says, else that of the message's coming. Where neither is known (a retained
 * or delayed message, or one whose own time can not be read) and age matters, it can not count as fresh.
 */
function sampleAt(point: MqttPoint, message: Message, reading: Reading): Sample {
  if (reading.quality === 'bad') return sampleOf(point, reading);
  if (point.sourceTime === undefined) return sampleOf(point, message.retained || message.delayed ? ofUnknownAge(point, reading) : reading);
  const wall = sourceTimeOf(point.sourceTime, message);
  if (wall === undefined) return sampleOf(point, reading.quality === 'good' ? uncertain(reading.value, 'stale') : reading);
  return sampleFrom(point, reading, wall);
}

function ofUnknownAge(point: MqttPoint, reading: Reading): Reading {
  return reading.quality === 'good' && Number.isFinite(point.staleAfter) ? uncertain(reading.value, 'stale') : reading;
}
