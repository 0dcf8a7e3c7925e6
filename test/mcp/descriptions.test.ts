import { Tiktoken } from 'js-tiktoken/lite';
import o200k from 'js-tiktoken/ranks/o200k_base';
import pino from 'pino';
import { expect, test } from 'vitest';
import { Control } from '../../src/control/control.ts';
import { Field } from '../../src/control/field.ts';
import { Catalogue } from '../../src/mcp/catalogue.ts';
import { GENERAL_TOOLS } from '../../src/model/plant.ts';
import { readConfig } from '../../src/protocols.ts';
import { History } from '../../src/store/history.ts';
import { LiveValues } from '../../src/store/live-values.ts';
import { temporaryFolder, writeYaml } from '../support/bridge.ts';

/** What a model reads of one tool, of all general ones, and what a client is sent of one with its output schema. */
const BUDGET = { tool: 350, general: 1500, whole: 1200 } as const;

const MAP = {
  connections: { plc: { type: 'modbus-tcp', host: '127.0.0.1' } },
  devices: {
    boiler: {
      connection: 'plc',
      points: {
        flow_temperature: { holding: 0, type: 'int16', scale: 0.1, unit: '°C', range: [-20, 150], description: 'Flow temperature' },
        setpoint: {
          holding: 1,
          type: 'int16',
          unit: '°C',
          description: 'Flow temperature that the boiler holds',
          write: { min: 20, max: 85, max_step: 20, min_interval: '10s' },
        },
        mode: { holding: 2, enum: { 0: 'off', 1: 'auto', 2: 'manual' }, description: 'Who decides', write: {} },
        valve: { holding: 3, enum: { 0: 'closed', 1: 'open' }, description: 'Feed valve', write: { role: 'engineer' } },
      },
    },
  },
  tools: {
    read_temperature: { read: ['boiler.flow_temperature'] },
    set_setpoint: { write: 'boiler.setpoint', description: 'Sets the flow temperature of the boiler' },
    set_mode: { write: 'boiler.mode' },
    toggle_valve: { toggle: 'boiler.valve' },
    shut_down: { steps: [{ 'boiler.mode': 'off' }, { 'boiler.setpoint': 20 }] },
  },
  safety: { writes: 'enabled' },
};

function listed() {
  const { plant, safety } = readConfig([writeYaml(temporaryFolder(), MAP)]);
  const live = new LiveValues(plant);
  live.stop();
  const field = new Field(plant, live, new Map());
  const control = new Control(field, { ...safety, readOnly: false }, undefined, pino({ level: 'silent' }));
  const sources = { field, control, publishers: [], history: new History(3_600_000, 1000) };
  return new Catalogue({ name: 'plant', version: '0' }, sources, 'run').tools({ name: 'test', role: 'engineer' })?.items ?? [];
}

test('each tool, and all general ones together, cost a model few tokens', () => {
  const encoder = new Tiktoken(o200k);
  const tokens = (value: unknown): number => encoder.encode(JSON.stringify(value)).length;
  const read = listed().map(tool => {
    const { name, description, inputSchema } = tool;
    return { name, cost: tokens({ name, description, inputSchema }), whole: tokens(tool) };
  });
  for (const { name, cost, whole } of read) {
    expect(cost, name).toBeLessThan(BUDGET.tool);
    expect(whole, name).toBeLessThan(BUDGET.whole);
  }
  const general = read.filter(({ name }) => (GENERAL_TOOLS as readonly string[]).includes(name));
  expect(general).toHaveLength(6);
  expect(general.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThan(BUDGET.general);
});

test.each([
  ['read_temperature', ['Flow temperature', '°C', '-20', '150']],
  ['set_setpoint', ['Sets the flow temperature', '°C', '20', '85', 'At most 20 °C', 'Once in 10 s', 'Acts on the real plant']],
  ['set_mode', ['Who decides', 'off', 'auto', 'manual', 'Acts on the real plant']],
  ['toggle_valve', ['Feed valve', 'closed', 'open', 'undoes itself', 'Acts on the real plant']],
  ['shut_down', ['boiler.mode = "off"', 'boiler.setpoint = 20 °C', 'stops at the first', 'Acts on the real plant']],
  ['write_point', ['list_points', 'Acts on the real plant']],
  ['read_points', ['quality', 'last_good']],
] as const)('%s says units, ranges, labels and consequences', (name, words) => {
  const tool = listed().find(one => one.name === name);
  for (const word of words) expect(tool?.description).toContain(word);
});

test('the schema of a value has its limits, step and labels too, for clients that show only that', () => {
  const schemaOf = (name: string) => listed().find(tool => tool.name === name)?.inputSchema.properties as Record<string, object>;
  expect(schemaOf('set_setpoint').value).toMatchObject({ type: 'integer', minimum: 20, maximum: 85 });
  expect(schemaOf('set_mode').value).toMatchObject({ enum: ['off', 'auto', 'manual'] });
  expect(schemaOf('toggle_valve').to).toMatchObject({ enum: ['closed', 'open'] });
});
