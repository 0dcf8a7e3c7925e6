import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { readConfig } from '../../src/protocols.ts';
import { temporaryFolder, writeYaml } from '../support/bridge.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

test('the map of the README is sound, and no longer than it says', () => {
  const [, yaml = ''] = /```yaml\n([\s\S]*?)```/.exec(read('README.md')) ?? [];
  expect(yaml.trimEnd().split('\n').length).toBeLessThanOrEqual(15);
  const config = readConfig([writeYaml(temporaryFolder(), yaml)]);
  expect(config.plant.points.size).toBe(4);
  expect(config.plant.tools.map(tool => tool.name)).toEqual(['read_temperature']);
  expect(config.safety.writes).toBe('disabled');
});

test('the commands that the README names are there', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  const named = [...read('README.md').matchAll(/npm run (\w+)/g)].map(match => match[1] ?? '');
  expect(named).toContain('demo');
  for (const name of [...named, 'test']) expect(scripts).toHaveProperty(name);
});

test('links between the documents lead somewhere', () => {
  for (const document of ['README.md', 'docs/configuration.md', 'docs/mcp.md', 'docs/modbus.md', 'docs/operation.md', 'docs/safety.md']) {
    for (const [, target = ''] of read(document).matchAll(/\]\(([^)#:]+)\)/g))
      expect(existsSync(join(ROOT, document, '..', target)), `${document}: ${target}`).toBe(true);
  }
});

test('every shipped map but that of the simulated plant leaves writes disabled, and that one says so at its top', () => {
  const maps = readdirSync(join(ROOT, 'config')).filter(name => name.endsWith('.yaml'));
  const writing = maps.filter(name => readConfig([join(ROOT, 'config', name)]).safety.writes !== 'disabled');
  expect(writing).toEqual(['boiler-house.yaml']);
  expect(read('config/boiler-house.yaml').split('\n').slice(0, 6).join('\n')).toContain('WRITES ARE ENABLED');
});
