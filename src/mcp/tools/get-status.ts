import { type JsonSchema, object } from '../../model/json-schema.ts';
import type { BridgeStatus } from '../status.ts';
import { answer, readTool, type Tool } from '../tool.ts';

const anything: JsonSchema = { type: 'object' };

/** Messages of a broker that were not what they should be. */
function troubleOf(messages: Readonly<Record<string, number>> | undefined): string {
  const amiss = Object.entries(messages ?? {}).filter(([name, count]) => count > 0 && name !== 'received' && name !== 'sent');
  return amiss.map(([name, count]) => `; ${name.replaceAll('_', ' ')}: ${count}`).join('');
}

export function getStatus(status: () => BridgeStatus): Tool {
  return {
    definition: readTool(
      'get_status',
      'State of the bridge, its connections and devices: since when, last error, request rate, round trip, read plan; and writes that wait for a person.',
      object({}),
      object(
        {
          bridge: anything,
          connections: { type: 'array', items: anything },
          devices: { type: 'array', items: anything },
          publish: { type: 'array', items: anything },
          pending: { type: 'array', items: anything },
        },
        ['bridge', 'connections', 'devices', 'pending'],
      ),
    ),
    call: () => {
      const now = status();
      const { bridge } = now;
      const lines = [
        `${bridge.name}: ${bridge.points.good} of ${bridge.points.total} points good, ${bridge.points.uncertain} uncertain, ${bridge.points.bad} bad; writes ${bridge.writes}`,
        ...now.connections.map(
          one =>
            `connection ${one.name}: ${one.state} since ${one.since}${troubleOf(one.messages)}${one.last_error === undefined ? '' : `; last error: ${one.last_error}`}`,
        ),
        ...now.devices.map(
          one =>
            `device ${one.name}: ${one.state} since ${one.since}${one.last_error === undefined ? '' : `; last error: ${one.last_error}`}`,
        ),
        ...(now.publish ?? []).map(
          one =>
            `publishing to ${one.connection}: ${one.published} samples sent, ${one.waiting} waiting, ${one.dropped + one.refused} lost${one.trouble === undefined ? '' : `; ${one.trouble}`}`,
        ),
      ];
      for (const { id, state, question, expires, outcome } of now.pending)
        lines.push(
          `write ${id}: ${state}${state === 'waiting' ? ` until ${expires}` : ''}${outcome === undefined ? '' : `, ${outcome.status}${outcome.reason === undefined ? '' : ` (${outcome.reason})`}`}. ${question}`,
        );
      const fieldText = [...now.connections, ...now.devices].some(one => one.last_error !== undefined);
      return Promise.resolve(answer(now, lines.join('\n'), false, fieldText));
    },
  };
}
