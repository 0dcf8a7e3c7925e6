import { createConnection } from 'node:net';

const PROBE_WITHIN = 500;

/** Whether somebody takes connections where the broker is, without logging in. */
export function isListening(address: string): Promise<boolean> {
  const { hostname, port, protocol } = new URL(address);
  const standard = { 'mqtt:': 1883, 'mqtts:': 8883, 'ws:': 80, 'wss:': 443 }[protocol] ?? 1883;
  return new Promise(resolve => {
    const socket = createConnection({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || standard, timeout: PROBE_WITHIN });
    const done = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.on('connect', () => done(true));
    socket.on('timeout', () => done(false));
    socket.on('error', () => done(false));
  });
}
