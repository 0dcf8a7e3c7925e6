import { readdirSync } from 'node:fs';
import pino from 'pino';
import { expect, test } from 'vitest';
import { Control } from '../../src/control/control.ts';
import { Field } from '../../src/control/field.ts';
import { Catalogue } from '../../src/mcp/catalogue.ts';
import { Notices } from '../../src/mcp/notices.ts';
import { SealedStates } from '../../src/mcp/sealed-state.ts';
import { createServer } from '../../src/mcp/server.ts';
import { Tally } from '../../src/mcp/tally.ts';
import { GENERAL_TOOLS } from '../../src/model/plant.ts';
import type { Role } from '../../src/model/role.ts';
import { readConfig } from '../../src/protocols.ts';
import { History } from '../../src/store/history.ts';
import { LiveValues } from '../../src/store/live-values.ts';
import { BOILER_HOUSE_MAP } from '../support/boiler-house.ts';

function catalogue() {
  const { plant, safety } = readConfig([BOILER_HOUSE_MAP]);
  const live = new LiveValues(plant);
  live.stop();
  const field = new Field(plant, live, new Map());
  const control = new Control(field, { ...safety, readOnly: false }, undefined, pino({ level: 'silent' }));
  return {
    field,
    made: new Catalogue(
      { name: 'boiler-house', version: '0' },
      { field, control, publishers: [], history: new History(3_600_000, 1000) },
      'run',
    ),
  };
}

const list = (role: Role) => catalogue().made.tools({ name: 'test', role })?.items ?? [];
const SNAPSHOTS = new URL('./__snapshots__/tools/', import.meta.url);

test.each(list('engineer').map(tool => [tool.name, tool] as const))('the tool %s is listed as it was', async (name, tool) => {
  await expect(`${JSON.stringify(tool, null, 2)}\n`).toMatchFileSnapshot(`__snapshots__/tools/${name}.json`);
});

test('there is a snapshot of each tool and of nothing else', () => {
  expect(readdirSync(SNAPSHOTS).sort()).toEqual(
    list('engineer')
      .map(tool => `${tool.name}.json`)
      .sort(),
  );
});

test('every tool says what it does, whether it only reads, and that it acts on an open world', () => {
  for (const tool of list('engineer')) {
    expect(tool.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    expect(tool.title).toBeTruthy();
    expect(tool.description?.length).toBeGreaterThan(40);
    expect(tool.outputSchema).toMatchObject({ type: 'object' });
    expect(tool.annotations).toMatchObject({
      readOnlyHint: expect.any(Boolean),
      destructiveHint: expect.any(Boolean),
      idempotentHint: expect.any(Boolean),
      openWorldHint: true,
    });
    if (tool.annotations?.readOnlyHint === false) expect(tool.description).toContain('Acts on the real plant');
    if (JSON.stringify(tool.inputSchema).includes('"value"')) expect(tool.annotations?.readOnlyHint).toBe(false);
  }
});

test('a viewer is not shown how to write', () => {
  expect(list('viewer').filter(tool => tool.annotations?.readOnlyHint !== true)).toEqual([]);
  expect(list('operator').map(tool => tool.name)).toContain('set_setpoint');
});

test('the general tools are those whose names a map may not take', () => {
  const { made, field } = catalogue();
  const own = new Set(field.plant.tools.map(tool => tool.name));
  const names = (made.tools({ name: 'test', role: 'engineer' })?.items ?? []).map(tool => tool.name);
  for (const name of names.filter(one => !own.has(one))) expect(GENERAL_TOOLS).toContain(name);
});

test('a server instance costs microseconds, so that each request can have one', () => {
  const { made } = catalogue();
  const parts = {
    catalogue: made,
    log: pino({ level: 'silent' }),
    notices: new Notices(),
    states: new SealedStates(60_000),
    tally: new Tally(),
  };
  for (let i = 0; i < 1000; i++) expect(createServer(parts, 'modern', { name: 'test', role: 'viewer' }).subscribed.size).toBe(0);
});
