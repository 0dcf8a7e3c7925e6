import type { RawMap } from '../../../model/protocol.ts';

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
