import { describePlan } from '../drivers/modbus/describe.ts';
import { describeTopics } from '../drivers/mqtt/describe.ts';
import { showDuration } from '../model/duration.ts';
import { readConfigAloud } from './config.ts';
import { table } from './table.ts';

/** Shows the requests that polling makes, and how busy each wire is with them. Opens no connection. */
export function plan(files: readonly string[]): void {
  const { connections, devices } = readConfigAloud(files);
  for (const connection of connections) {
    const own = devices.filter(device => device.connection === connection.name);
    if (connection.type === 'mqtt') {
      process.stdout.write(`connection ${connection.name} (${connection.type}): nothing is asked for, these are listened to\n`);
      process.stdout.write(`${table([['device', 'topic', 'point'], ...describeTopics(connection, own)])}\n`);
      continue;
    }
    const { requests, registers, unused, cycle, load } = describePlan(connection, own);
    const rows = requests.map(one => [
      one.device,
      String(one.unit),
      showDuration(one.interval),
      one.table,
      one.count === 1 ? String(one.address) : `${one.address}-${one.address + one.count - 1}`,
      String(one.count),
      one.points.map(name => name.slice(name.indexOf('.') + 1)).join(' '),
    ]);
    process.stdout.write(`connection ${connection.name} (${connection.type})\n`);
    process.stdout.write(table([['device', 'unit', 'every', 'table', 'addresses', 'count', 'points'], ...rows]));
    process.stdout.write(
      `${requests.length} requests, ${registers} registers and bits, ${unused} of them unused; about ${showDuration(cycle)} for all of them, ${(load * 100).toFixed(1)} % load\n\n`,
    );
  }
}
