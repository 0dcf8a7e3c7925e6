import { type JsonSchema, object } from '../model/json-schema.ts';

const text = (description: string): JsonSchema => ({ type: 'string', description });

const KINDS: readonly JsonSchema[] = [
  { type: 'number' },
  { type: 'string' },
  { type: 'boolean' },
  { type: 'array', items: { type: 'string' } },
];

/** A value that a client sends. Branches of one type each: clients that know schemas by halves choke on lists of types. */
export const givenValue = (description: string): JsonSchema => ({ anyOf: KINDS, description });

export const VALUE: JsonSchema = {
  anyOf: [...KINDS, { type: 'null' }],
  description: 'null where there is no value; whole numbers beyond 2^53 as decimal text',
};

const SAMPLE: JsonSchema = object(
  {
    point: text('device.point'),
    value: VALUE,
    unit: text('Engineering unit'),
    quality: { enum: ['good', 'uncertain', 'bad'], description: 'Whether the value can be relied upon' },
    reason: {
      enum: ['not_available', 'out_of_range', 'stale', 'no_connection', 'timeout', 'exception', 'decode_error', 'offline', 'initialising'],
      description: 'Why it is not good',
    },
    exception: object({ code: { type: 'integer' }, name: { type: 'string' } }, ['code', 'name']),
    timestamp: { type: 'string', format: 'date-time' },
    age_ms: { type: 'integer', minimum: 0 },
    last_good: object({ value: VALUE, timestamp: { type: 'string', format: 'date-time' } }, ['value', 'timestamp']),
  },
  ['point', 'value', 'quality', 'timestamp', 'age_ms'],
);

export const SAMPLES: JsonSchema = { type: 'array', items: SAMPLE };

export const UNKNOWN: JsonSchema = {
  type: 'array',
  description: 'Names that are no points, with the nearest that are',
  items: object({ name: { type: 'string' }, suggestions: { type: 'array', items: { type: 'string' } } }, ['name', 'suggestions']),
};

const STATUS: JsonSchema = {
  enum: ['written', 'unchanged', 'unverified', 'refused', 'declined', 'expired', 'failed', 'unknown', 'pending', 'simulated'],
  description:
    'written: read back and so it is. unchanged: it was so already, nothing was sent. unverified: acknowledged, but reading back shows something else. refused: a rule said no. failed: the device said no, or nothing could be sent. unknown: no reply, it may have acted. simulated: dry run',
};

export const OUTCOME: JsonSchema = object(
  {
    point: text('device.point'),
    requested: VALUE,
    before: VALUE,
    after: VALUE,
    status: STATUS,
    rule: text('The rule that refused'),
    reason: { type: 'string' },
    live: SAMPLES,
    wire: { type: 'array', items: { type: 'string' }, description: 'Requests in hexadecimal' },
    audit_id: text('Under this id the audit file has the whole story'),
  },
  ['point', 'requested', 'before', 'status', 'audit_id'],
);

export const STEPS_OUTCOME: JsonSchema = object(
  { status: STATUS, outcomes: { type: 'array', items: OUTCOME }, not_done: { type: 'array', items: { type: 'string' } } },
  ['status', 'outcomes'],
);

/** Arguments that every tool that writes takes. */
export const WRITE_ARGUMENTS = {
  reason: { type: 'string', maxLength: 500, description: 'Why, in a sentence; goes into the audit file' },
  expected: givenValue('The present value you believe it has: refused as a conflict if it has another'),
  request_id: {
    type: 'string',
    minLength: 1,
    maxLength: 128,
    description: 'An id of your own: a repeat with the same id gets the first outcome and writes nothing',
    // So that a proxy on the way can tell a repeat without reading bodies.
    'x-mcp-header': 'Request-Id',
  },
  dry_run: { type: 'boolean', description: 'Checks every rule and shows what would be sent, without sending it' },
} as const satisfies Record<string, JsonSchema>;
