import type { RawMap } from '../../../model/protocol.ts';

/** The metric by which an edge node is asked for a new birth (Sparkplug 3.0, 6.4.15). */
export const REBIRTH = 'Node Control/Rebirth';

/** Where messages of this kind go and come (Sparkplug 3.0, 4.1). */
export const sparkplugTopic = (group: string, kind: string, edgeNode: string, device?: string): string =>
  `spBv1.0/${group}/${kind}/${edgeNode}${device === undefined ? '' : `/${device}`}`;

/** An edge node, and one of its devices; without one, the node's own metrics (Sparkplug 3.0, 4.1). */
export interface SparkplugAddress {
  readonly group: string;
  readonly edgeNode: string;
  readonly device: string | undefined;
}

/** What a device says of itself comes before what its connection says of all. */
export function addressOf(
  device: unknown,
  connection: unknown,
): { readonly address: SparkplugAddress; readonly missing: readonly string[] } {
  const said = { ...(connection as RawMap | undefined), ...(device as RawMap | undefined) };
  return {
    address: {
      group: String(said.group),
      edgeNode: String(said.edge_node),
      device: said.device === undefined ? undefined : String(said.device),
    },
    missing: ['group', 'edge_node'].filter(key => said[key] === undefined),
  };
}
