import type { BrokerSession } from '../drivers/mqtt/session.ts';
import type { Availability } from '../model/publish.ts';

/** The bridge tells, retained, that it is there; that it is not, its will tells, or it does so itself as it goes. */
export function announce(session: BrokerSession, { topic, online, offline }: Availability): void {
  const say = (payload: string): Promise<void> => session.publish({ topic, payload, qos: 1, retain: true });
  session.setWill(() => ({ topic, payload: offline, qos: 1, retain: true }));
  session.join({
    onConnected: () => void say(online).catch(() => undefined),
    onStop: async () => {
      if (session.connected) await say(offline);
    },
  });
}
