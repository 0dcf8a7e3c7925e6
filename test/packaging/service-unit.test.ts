import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../support/bridge.ts';
import { needsSystem } from '../support/system.ts';

const PACKAGING = fileURLToPath(new URL('../../packaging/', import.meta.url));

/** The unit in a folder of its own, with a program that is there; its drop-in beside it where that is asked for. */
function unit(isSerial: boolean) {
  const folder = temporaryFolder();
  const file = join(folder, 'fieldbridge.service');
  writeFileSync(file, readFileSync(`${PACKAGING}fieldbridge.service`, 'utf8').replaceAll('/usr/local/bin/fieldbridge', process.execPath));
  if (isSerial) {
    mkdirSync(join(folder, 'fieldbridge.service.d'));
    cpSync(`${PACKAGING}fieldbridge-serial.conf`, join(folder, 'fieldbridge.service.d/serial.conf'));
  }
  return { file, env: { ...process.env, SYSTEMD_UNIT_PATH: `${folder}:` } };
}

describe.skipIf(needsSystem('systemd-analyze'))('the unit, as systemd sees it', () => {
  test.each([
    ['as it is shipped', false, 1.0],
    ['with its drop-in for serial lines', true, 1.2],
  ])('is exposed less than any other of its kind: %s', (_, isSerial, most) => {
    const { file, env } = unit(isSerial);
    const told = execFileSync('systemd-analyze', ['security', '--offline=true', '--no-pager', file], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [, level] = /Overall exposure level for fieldbridge\.service: ([\d.]+)/.exec(told.toString()) ?? [];
    expect(Number(level)).toBeLessThanOrEqual(most);
    // It would say so of a drop-in that it has not read, too.
    expect(told.toString().includes('char-ttyUSB')).toBe(isSerial);
  });

  test.each([false, true])('has nothing that systemd does not know (serial lines: %s)', isSerial => {
    const { file, env } = unit(isSerial);
    // Its exit code says nothing.
    expect(spawnSync('systemd-analyze', ['verify', file], { env }).stderr.toString()).toBe('');
  });
});

test('V8 makes code as it runs: the unit does not forbid it', () => {
  expect(readFileSync(`${PACKAGING}fieldbridge.service`, 'utf8')).not.toMatch(/^MemoryDenyWriteExecute=/m);
});
