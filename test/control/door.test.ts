import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ControlDoor, type DoorKeeper } from '../../src/control/door.ts';
import { temporaryFolder } from '../support/bridge.ts';

const LOG = { debug: () => undefined, info: () => undefined, warn: () => undefined };

const nobody: DoorKeeper = {
  pending: [],
  decide: () => Promise.reject(new Error('nothing waits')),
  noteLock: () => Promise.resolve(),
  writeByHand: () => Promise.reject(new Error('nothing is written')),
};

test('a door is for its owner alone, and what the process makes while doors open has the rights that it had before', async () => {
  const folder = temporaryFolder();
  const paths = [join(folder, 'one.sock'), join(folder, 'other.sock')];
  const before = process.umask();
  const opening = paths.map(path => ControlDoor.open(path, nobody, LOG));
  expect(process.umask()).toBe(before);
  for (const path of paths) expect(statSync(path).mode & 0o777).toBe(0o600);
  const doors = await Promise.all(opening);
  expect(process.umask()).toBe(before);
  for (const door of doors) await door?.close();
});
