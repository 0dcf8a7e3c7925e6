import { duration, type JsonSchema, object, size } from '../model/json-schema.ts';
import type { Protocol } from '../model/protocol.ts';
import { ROLES } from '../model/role.ts';
import { auth, http } from './http-schema.ts';
import { publication } from './publish.ts';

const NAME = {
  pattern: '^[a-z][a-z0-9_]*$',
  maxLength: 48,
  expected: 'a name of a-z, 0-9 and _, starting with a letter, of at most 48 characters',
};
const POINT_NAME = { type: 'string', pattern: '^[a-z][a-z0-9_]*\\.[a-z][a-z0-9_]*$', expected: 'a point as device.point' };

const TOOL_VERBS = ['read', 'write', 'toggle', 'steps'] as const;

const tool: JsonSchema = object(
  {
    description: { type: 'string', description: 'What the tool is for, in the words that the assistant will read' },
    read: { type: 'array', minItems: 1, items: POINT_NAME, description: 'Reads these points' },
    write: { ...POINT_NAME, description: 'Writes this point; the tool takes the value' },
    toggle: { ...POINT_NAME, description: 'Switches this point between its two states' },
    steps: {
      type: 'array',
      minItems: 1,
      description: 'Writes these points one after the other and stops at the first that is not written',
      items: {
        type: 'object',
        minProperties: 1,
        maxProperties: 1,
        expected: 'one device.point and its value',
        description: 'One point and the value that is written to it',
      },
    },
  },
  [],
  { exactlyOne: TOOL_VERBS },
);

const safety = object({
  writes: {
    enum: ['disabled', 'simulated', 'enabled'],
    default: 'disabled',
    description: 'The master switch: while it is disabled, nothing is ever written; simulated runs every rule and shows what would be sent',
  },
  max_writes_per_minute: { type: 'integer', minimum: 1, default: 30, description: 'Most writes in a minute for the whole bridge' },
  confirm_timeout: duration('How long a person has to answer', '2m'),
  approver: {
    enum: ['any', 'other'],
    default: 'any',
    description: 'Who may approve a write that waits for a person: anybody who can, or nobody by whose authority it was asked for',
  },
  heartbeat: object(
    { point: { ...POINT_NAME, description: 'The point that is written' }, interval: duration('How often', '1s') },
    ['point'],
    { description: 'A sign of life for the PLC: a counter that goes up, or a bit that changes' },
  ),
  kill_switch: { type: 'string', minLength: 1, description: 'While a file of this path exists, nothing is written' },
  audit: { type: 'string', minLength: 1, description: 'The file in which every write, refusal and outcome is recorded' },
  audit_key: {
    type: 'string',
    minLength: 1,
    description: 'The file of the key that seals its records: 64 hexadecimal digits. Made beside the audit file where there is none',
  },
  audit_rotate: size('Size at which a new audit file is begun; the old ones stay', '50MB'),
});

/** The grammar of a map, put together from the general part and what each protocol adds. */
export function configSchema(protocols: readonly Protocol[]): JsonSchema {
  const merged = <K extends 'deviceProperties' | 'pointProperties' | 'writeProperties' | 'connections'>(
    key: K,
  ): Record<string, JsonSchema> => Object.assign({}, ...protocols.map(protocol => protocol[key])) as Record<string, JsonSchema>;
  const connections = merged('connections');
  const types = Object.keys(connections);

  const write: JsonSchema = object(
    {
      min: { type: 'number', description: 'Lowest value that is accepted, in engineering units' },
      max: { type: 'number', description: 'Highest value that is accepted, in engineering units' },
      max_step: { type: 'number', exclusiveMinimum: 0, description: 'Largest change from the present value in one write' },
      role: { enum: ['operator', 'engineer'], default: 'operator', description: 'Who may write it' },
      min_interval: duration('Time that must lie between two writes'),
      verify: {
        description: 'How long the read-back has to agree; off does not read back; or another point that shows what became of it',
        default: '2s',
        if: { type: 'object' },
        // biome-ignore lint/suspicious/noThenProperty: JSON Schema's own keyword
        then: object(
          {
            point: { ...POINT_NAME, description: 'The point that shows it' },
            within: duration('How long it has', '5s'),
            tolerance: { type: 'number', minimum: 0, default: 0, description: 'How near it has to come, in engineering units' },
          },
          ['point'],
        ),
        else: { anyOf: [duration(''), { const: 'off' }], expected: 'a duration such as 2s, off, or { point, within, tolerance }' },
      },
      confirm: {
        enum: ['none', 'client', 'person'],
        default: 'none',
        description: 'Who has to agree to a write: the person at the client, whom a client can answer for; or a person outside its reach',
      },
      interlock: {
        type: 'string',
        minLength: 1,
        maxLength: 2000,
        description: 'CEL over live points, without which nothing is written. A point that is not known refuses',
      },
      lease: object(
        { ttl: duration('Within which the write has to be renewed'), safe: { description: 'The value that is written when it is not' } },
        ['ttl', 'safe'],
        { description: 'A safe value that is written when the write is not renewed' },
      ),
      max_per_day: {
        type: 'integer',
        minimum: 1,
        maximum: 100_000,
        description: 'Most writes of this point in 24 hours, counted across restarts',
      },
      pulse: duration('A momentary contact: true for this time, then false again'),
      on_restart: {
        enum: ['release', 'report'],
        default: 'release',
        description: 'What is done about a pulse that a killed bridge left on: let go of it, or say so and leave it',
      },
      ...merged('writeProperties'),
    },
    [],
    { description: 'Its presence makes the point writable; {} takes every default' },
  );

  const point: JsonSchema = object(
    {
      description: { type: 'string', description: 'What the point is, in the words that the assistant will read' },
      unit: { type: 'string', description: 'Engineering unit, shown with every value' },
      range: {
        type: 'array',
        items: { type: 'number' },
        minItems: 2,
        maxItems: 2,
        expected: 'two numbers, lowest and highest',
        description: 'Plausible engineering range: outside it the quality is uncertain',
      },
      deadband: {
        anyOf: [
          { type: 'number', minimum: 0 },
          { type: 'string', pattern: '^\\d+(\\.\\d+)?%$' },
        ],
        expected: 'a number in engineering units, or a share such as 2%',
        description: 'Smaller changes notify nobody. A share is taken of the range, without a range of the value last told',
      },
      poll_interval: duration('How often it is read; default: that of the device'),
      stale_after: duration('Age from which the value is doubted; default: three times the poll interval'),
      hidden: { type: 'boolean', default: false, description: 'Not listed; still readable by its name' },
      write: { $ref: '#/$defs/write' },
      ...merged('pointProperties'),
    },
    [],
    {
      exactlyOne: protocols.flatMap(protocol => protocol.pointSources),
      orInWrite: protocols.flatMap(protocol => protocol.writeOnlySource ?? []),
    },
  );

  const device: JsonSchema = object(
    {
      connection: { type: 'string', description: 'The connection that it is reached by' },
      description: { type: 'string', description: 'What the device is, in the words that the assistant will read' },
      poll_interval: duration('How often its points are read', '1s'),
      stale_after: duration('Age from which a value is doubted; default: three times the poll interval'),
      points: { type: 'object', propertyNames: NAME, additionalProperties: { $ref: '#/$defs/point' }, description: 'Its points by name' },
      use: object(
        {
          template: { type: 'string', minLength: 1, description: 'Name of a map that comes with the bridge, or a .yaml file of your own' },
          unit_id: { type: 'integer', minimum: 0, maximum: 255, description: 'Unit id of this one' },
          poll_interval: duration('How often it is read'),
          base: { type: 'integer', minimum: -65_535, maximum: 65_535, default: 0, description: 'Added to all addresses of the template' },
        },
        ['template'],
        { description: 'The ready map of a known device; what stands beside it in the device comes on top' },
      ),
      ...merged('deviceProperties'),
    },
    ['connection'],
  );

  const wires = Object.fromEntries(
    types.map(type => {
      const fragment = connections[type] as { properties: Record<string, JsonSchema> };
      return [type, { ...fragment, properties: { type: { const: type, description: 'The protocol' }, ...fragment.properties } }];
    }),
  );
  const connection: JsonSchema = {
    type: 'object',
    required: ['type'],
    properties: { type: { enum: types, description: 'The protocol' } },
    allOf: types.map(type => ({
      if: { properties: { type: { const: type } }, required: ['type'] },
      // biome-ignore lint/suspicious/noThenProperty: JSON Schema's own keyword
      then: { $ref: `#/$defs/${type}` },
    })),
  };

  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Fieldbridge map',
    description: 'A map from registers and topics to what an assistant may read and write',
    ...object(
      {
        bridge: object(
          {
            name: {
              type: 'string',
              pattern: '^[a-z0-9][a-z0-9-]*$',
              maxLength: 48,
              expected: 'a name of a-z, 0-9 and -',
              default: 'fieldbridge',
              description: 'Names the MCP server and the audit log',
            },
            description: { type: 'string', description: 'What the plant is; told to the assistant' },
            notify_interval: duration('Changes within it are told in one notification', '100ms'),
          },
          [],
          { description: 'The bridge itself' },
        ),
        connections: {
          type: 'object',
          propertyNames: NAME,
          additionalProperties: { $ref: '#/$defs/connection' },
          description: 'The wires: one entry for each socket, serial line or broker session',
        },
        devices: {
          type: 'object',
          propertyNames: NAME,
          additionalProperties: { $ref: '#/$defs/device' },
          description: 'What hangs on the wires',
        },
        tools: {
          type: 'object',
          propertyNames: { pattern: '^[A-Za-z0-9_-]{1,64}$', expected: 'a tool name of A-Z, a-z, 0-9, _ and -, of at most 64 characters' },
          additionalProperties: { $ref: '#/$defs/tool' },
          description: 'The tools that the assistant sees besides the general ones',
        },
        safety: { $ref: '#/$defs/safety', description: 'What keeps writes in bounds' },
        http: { $ref: '#/$defs/http', description: 'The Streamable HTTP listener' },
        stdio: object({ role: { enum: [...ROLES], default: 'viewer', description: 'What a client on stdio may do' } }, [], {
          description: 'Clients on standard input and output',
        }),
        log: object(
          {
            level: {
              enum: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
              default: 'info',
              description: 'Least severity that is logged',
            },
          },
          [],
          { description: 'The log on standard error' },
        ),
        history: {
          description: 'Past values of all points, in memory; 0 turns it off',
          if: { type: 'object' },
          // biome-ignore lint/suspicious/noThenProperty: JSON Schema's own keyword
          then: object({
            keep: duration('How far back', '1h'),
            max_samples: {
              type: 'integer',
              minimum: 0,
              maximum: 100_000_000,
              default: 1_000_000,
              description: 'Most samples of all points together',
            },
          }),
          else: { const: 0, expected: 'a history as { keep: 1h, max_samples: 1000000 }, or 0' },
        },
        publish: {
          description: 'Points that are published to a broker: one entry, or a list of them',
          if: { type: 'array' },
          // biome-ignore lint/suspicious/noThenProperty: JSON Schema's own keyword
          then: { type: 'array', items: { $ref: '#/$defs/publication' } },
          else: { $ref: '#/$defs/publication' },
        },
      },
      ['connections', 'devices'],
    ),
    $defs: { ...wires, connection, device, point, write, tool, publication, safety, http, auth },
  };
}
