import { type ConfigPath, mapOf, type Protocol, type RawMap } from '../model/protocol.ts';

type Report = (path: ConfigPath, message: string, at?: 'key' | 'value') => void;

/** Keys that only another protocol knows: each is a mistake, and never ignored. */
export function reportForeignKeys(
  device: RawMap,
  path: ConfigPath,
  type: string,
  own: Protocol,
  protocols: readonly Protocol[],
  report: Report,
): void {
  const others = protocols.filter(protocol => protocol !== own);
  const foreign = (keys: RawMap, of: 'deviceProperties' | 'pointProperties' | 'writeProperties', at: ConfigPath): void => {
    for (const key of Object.keys(keys)) {
      const isShared = of === 'pointProperties' && own.sharedProperties?.includes(key) === true;
      if (key in own[of] || isShared || !others.some(protocol => key in protocol[of])) continue;
      report([...at, key], `${key} does not go with a connection of type ${type}`, 'key');
    }
  };
  foreign(device, 'deviceProperties', path);
  for (const [id, point] of Object.entries(mapOf(device.points))) {
    foreign(mapOf(point), 'pointProperties', [...path, 'points', id]);
    foreign(mapOf(mapOf(point).write), 'writeProperties', [...path, 'points', id, 'write']);
  }
}
