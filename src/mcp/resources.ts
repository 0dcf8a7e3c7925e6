import type { ReadResourceResult, Resource, ResourceTemplateType } from '@modelcontextprotocol/server';
import type { Field } from '../control/field.ts';
import type { Device } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import { pageOf } from './page.ts';
import type { Page } from './served.ts';
import type { BridgeStatus } from './status.ts';
import { describePoint, presentAll } from './tool.ts';

const MIME = 'application/json';
const PAGE = 200;
export const STATUS_URI = 'plant://status';
const STATUS_TTL = 1000;

export const TEMPLATES: readonly ResourceTemplateType[] = [
  { uriTemplate: 'plant://{device}', name: 'device', title: 'All samples of a device', mimeType: MIME },
  { uriTemplate: 'plant://{device}/{point}', name: 'point', title: 'One sample', mimeType: MIME },
];

/** The plant as resources: its state, its devices, its points. */
export class Resources {
  private readonly field: Field;
  private readonly status: () => BridgeStatus;

  constructor(field: Field, status: () => BridgeStatus) {
    this.field = field;
    this.status = status;
  }

  has(uri: string): boolean {
    return uri === STATUS_URI || this.deviceOf(uri) !== undefined || this.field.plant.byUri.has(uri);
  }

  /** @returns undefined for a cursor that is none */
  list(cursor: string | undefined): Page<Resource> | undefined {
    const { plant } = this.field;
    const status: Resource = {
      uri: STATUS_URI,
      name: 'status',
      title: 'State of the bridge',
      description: 'Connections, devices and writes that wait for a person',
      mimeType: MIME,
    };
    const all = [undefined, ...plant.devices.values(), ...plant.visible()];
    const page = pageOf(all, PAGE, cursor);
    if (page === undefined) return undefined;
    const items = page.items.map(item => (item === undefined ? status : 'points' in item ? this.ofDevice(item) : this.ofPoint(item)));
    return { ...page, items };
  }

  /** @returns undefined where there is no such resource; the milliseconds that the answer stays true beside it */
  async read(uri: string, signal: AbortSignal): Promise<{ readonly result: ReadResourceResult; readonly ttlMs: number } | undefined> {
    const contents = (value: object): ReadResourceResult => ({ contents: [{ uri, mimeType: MIME, text: JSON.stringify(value) }] });
    if (uri === STATUS_URI) return { result: contents(this.status()), ttlMs: STATUS_TTL };
    const device = this.deviceOf(uri);
    const point = this.field.plant.byUri.get(uri);
    const points = device === undefined ? (point === undefined ? [] : [point]) : visible(device);
    await this.field.firstPoll(points, signal);
    const samples = presentAll(points.map(one => this.field.live.get(one)));
    const ttlMs = Math.min(60_000, ...points.map(one => one.pollInterval));
    if (device !== undefined) return { result: contents({ device: device.name, samples }), ttlMs };
    const [sample] = samples;
    return sample === undefined ? undefined : { result: contents(sample), ttlMs };
  }

  private deviceOf(uri: string): Device | undefined {
    const device = this.field.plant.devices.get(uri.replace(/^plant:\/\//, ''));
    return device?.uri === uri ? device : undefined;
  }

  private ofDevice(device: Device): Resource {
    const newest = Math.max(0, ...visible(device).map(point => this.field.live.get(point).wall));
    return {
      uri: device.uri,
      name: device.name,
      ...(device.description !== undefined && { description: device.description }),
      mimeType: MIME,
      annotations: { lastModified: new Date(newest).toISOString() },
    };
  }

  private ofPoint(point: Point): Resource {
    return {
      uri: point.uri,
      name: point.name,
      description: describePoint(point),
      mimeType: MIME,
      annotations: { lastModified: new Date(this.field.live.get(point).wall).toISOString() },
    };
  }
}

const visible = (device: Device): Point[] => device.points.filter(point => !point.hidden);
