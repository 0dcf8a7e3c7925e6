import { connect } from 'node:net';
import { ModbusClient, noStatistics } from '../src/drivers/modbus/client.ts';
import { transportOf } from '../src/drivers/modbus/transports.ts';
import { startPlc } from './plant.ts';

const REGISTERS = 125;
const SECONDS = 3;
const ROUNDS = 3;

/** Requests a second of the bridge's client beside a bare socket that sends the same bytes and checks nothing. */
export async function polling(): Promise<void> {
  const { server } = await startPlc(REGISTERS);
  for (const inFlight of [1, 8]) {
    const rates = { floor: [] as number[], client: [] as number[] };
    for (let round = 0; round < ROUNDS; round++) {
      rates.floor.push(await bareSocket(server.port, inFlight));
      rates.client.push(await client(server.port, inFlight));
    }
    const [floor, ours] = [rates.floor, rates.client].map(list => list.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0) as [
      number,
      number,
    ];
    process.stdout.write(
      `${REGISTERS} registers, ${inFlight} in flight: bare socket ${floor.toFixed(0)}/s, client ${ours.toFixed(0)}/s, ratio ${(ours / floor).toFixed(2)}\n`,
    );
  }
  await server.stop();
}

async function client(port: number, inFlight: number): Promise<number> {
  const statistics = noStatistics();
  const modbus = await ModbusClient.connect(
    { peer: 'bench', newPort: transportOf('modbus-tcp', { host: '127.0.0.1', port }).newPort, timeout: 1000, requestDelay: 0 },
    statistics,
    () => undefined,
  );
  const end = performance.now() + SECONDS * 1000;
  let count = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await modbus.read('holding', 1, 0, REGISTERS);
      count++;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  modbus.close();
  return count / SECONDS;
}

function bareSocket(port: number, inFlight: number): Promise<number> {
  const request = Buffer.from([0, 1, 0, 0, 0, 6, 1, 3, 0, 0, 0, REGISTERS]);
  const reply = 9 + REGISTERS * 2;
  return new Promise(resolve => {
    let bytes = 0;
    let count = 0;
    const socket = connect({ host: '127.0.0.1', port, noDelay: true }, () => {
      for (let i = 0; i < inFlight; i++) socket.write(request);
    });
    socket.on('data', chunk => {
      bytes += chunk.length;
      for (; bytes >= reply; bytes -= reply) {
        count++;
        socket.write(request);
      }
    });
    setTimeout(() => {
      socket.destroy();
      resolve(count / SECONDS);
    }, SECONDS * 1000);
  });
}
