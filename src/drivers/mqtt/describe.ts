import type { DeviceEntry } from '../../model/connection.ts';
import { isMetric, type MqttPoint } from './point.ts';
import { addressOf } from './sparkplug/address.ts';

/** What the bridge listens to for each point: topics, or metrics of a Sparkplug device. */
export function describeTopics(connection: { readonly raw: DeviceEntry['raw'] }, devices: readonly DeviceEntry[]): readonly string[][] {
  return devices.flatMap(device => {
    const sparkplug = device.raw.sparkplug ?? connection.raw.sparkplug;
    if (sparkplug !== undefined) {
      const { group, edgeNode, device: id } = addressOf(device.raw.sparkplug, connection.raw.sparkplug).address;
      const node = ['Sparkplug', group, edgeNode, ...(id === undefined ? [] : [id])].join(' / ');
      if (device.points.length === 0) return [[device.name, node, '(whatever its birth certificate brings)']];
      return device.points.filter(isMetric).map(point => [device.name, `${node}: ${point.metric}`, point.id]);
    }
    return (device.points as readonly MqttPoint[]).map(point => [device.name, point.topic ?? '(only written)', point.id]);
  });
}
