import { readConfigAloud } from './config.ts';

/** Says whether a configuration is sound and what it holds; opens no connection. */
export function check(files: readonly string[]): void {
  const { plant, connections, safety, warnings } = readConfigAloud(files);
  const count = (n: number, one: string): string => `${n} ${one}${n === 1 ? '' : 's'}`;
  const writable = [...plant.points.values()].filter(point => point.write !== undefined).length;
  const parts = [
    count(connections.length, 'connection'),
    count(plant.devices.size, 'device'),
    `${count(plant.points.size, 'point')} (${writable} writable)`,
    count(plant.tools.length, 'tool'),
  ];
  process.stdout.write(
    `OK: ${parts.join(', ')}; writes ${safety.writes}${warnings.length > 0 ? `; ${count(warnings.length, 'warning')}` : ''}\n`,
  );
}
