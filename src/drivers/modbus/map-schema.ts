/** The grammar of Modbus connections, devices and points: what the protocol adds to a map's JSON Schema. */
import { DURATION_PATTERN } from '../../model/duration.ts';
import { duration, type JsonSchema, object } from '../../model/json-schema.ts';
import { ENCODINGS, ORDERS, TYPE_NAMES } from './types.ts';

const RANGE = {
  type: 'string',
  pattern: '^(coil|discrete|input|holding):(\\d+|0x[0-9a-fA-F]+)(-(\\d+|0x[0-9a-fA-F]+))?$',
  expected: 'a range such as holding:200-210',
};
const address = (what: string): JsonSchema => ({
  type: 'integer',
  minimum: 0,
  maximum: 65536,
  description: `Address of ${what}, decimal or 0x…`,
});

const timing = {
  timeout: duration('For one request', '1s'),
  retries: {
    type: 'integer',
    minimum: 0,
    maximum: 10,
    default: 1,
    description: 'How often a read without a reply is repeated; a write never is',
  },
  request_delay: duration('Silence kept between two requests', '0ms'),
  connect_delay: duration('Silence kept after connecting', '0ms'),
  idle_close: {
    anyOf: [{ type: 'string', pattern: DURATION_PATTERN }, { const: 'off' }],
    expected: 'a duration such as 30s, or off',
    default: 'off',
    description: 'Closes the connection after this long without a request, for gateways that want their one seat back',
  },
  reconnect: object({ initial: duration('First pause before connecting again', '500ms'), max: duration('Longest pause', '30s') }, [], {
    description: 'Pauses between attempts to connect, doubling from the first to the longest',
  }),
} as const satisfies Record<string, JsonSchema>;

const host = { type: 'string', minLength: 1, description: 'Host name or address' } as const;
const port = (byDefault: number | undefined): JsonSchema => ({
  type: 'integer',
  minimum: 1,
  maximum: 65535,
  ...(byDefault !== undefined && { default: byDefault }),
  description: 'Port',
});
const inFlight = {
  type: 'integer',
  minimum: 1,
  maximum: 16,
  default: 1,
  description: 'Requests on the wire at once; more than 1 only on devices that stand it',
} as const;
const echo = {
  type: 'boolean',
  default: false,
  description: 'The adapter hands our own bytes back; found by itself where a read shows it',
} as const;

const tls = object(
  {
    ca: { type: 'string', fileContent: true, description: 'File with the certificates of the authorities that are trusted' },
    cert: { type: 'string', fileContent: true, description: 'File with the certificate of the bridge' },
    key: { type: 'string', fileContent: true, description: 'File with the key of that certificate' },
    server_name: { type: 'string', description: 'Name that the device has in its certificate, if it is not the host' },
  },
  [],
  { description: 'Modbus/TCP Security: TLS with certificates of both sides, on port 802 unless another is given' },
);

export const CONNECTIONS: Readonly<Record<string, JsonSchema>> = {
  'modbus-tcp': object({ host, port: port(502), ...timing, max_in_flight: inFlight, tls }, ['host']),
  'modbus-udp': object({ host, port: port(502), ...timing, max_in_flight: inFlight }, ['host']),
  'modbus-rtu-over-tcp': object({ host, port: port(undefined), ...timing, echo }, ['host', 'port']),
  'modbus-rtu': object(
    {
      path: { type: 'string', minLength: 1, description: 'The serial device, such as /dev/ttyUSB0' },
      baud_rate: { type: 'integer', minimum: 50, maximum: 4_000_000, default: 19_200, description: 'Bits per second' },
      data_bits: { enum: [7, 8], default: 8, description: 'Bits of a character' },
      parity: { enum: ['none', 'even', 'odd'], default: 'even', description: 'Parity' },
      stop_bits: { enum: [1, 2], default: 1, description: 'Stop bits' },
      ...timing,
      echo,
    },
    ['path'],
  ),
};

const labels = (what: string, keys: string): JsonSchema => ({
  type: 'object',
  minProperties: 1,
  propertyNames: { pattern: keys, expected: 'a whole number' },
  additionalProperties: { type: 'string', minLength: 1, maxLength: 64, expected: 'a label as text (numbers, true and null in quotes)' },
  description: what,
});

export const DEVICE_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  unit_id: { type: 'integer', minimum: 0, maximum: 255, default: 1, description: 'Unit id; 0 and 255 are sent as they stand' },
  addressing: {
    enum: ['zero_based', 'one_based'],
    default: 'zero_based',
    description: 'Whether addresses in this device count from 0 as on the wire, or from 1',
  },
  order: { enum: [...ORDERS], default: 'ABCD', description: 'Byte order of its values of several registers' },
  max_registers_per_read: { type: 'integer', minimum: 1, maximum: 125, default: 125, description: 'Most registers in one read' },
  max_bits_per_read: {
    type: 'integer',
    minimum: 1,
    maximum: 2000,
    default: 2000,
    description: 'Most coils or discrete inputs in one read',
  },
  max_gap: {
    anyOf: [{ type: 'integer', minimum: 0, maximum: 2000 }, { const: 'auto' }],
    expected: 'a number of registers, or auto',
    default: 'auto',
    description: 'Unused registers that a read may span; 0 forbids it, auto weighs them against another request',
  },
  unreadable: { type: 'array', items: RANGE, description: 'Ranges that no read may span' },
  protected: { type: 'array', items: RANGE, description: 'Ranges that are never written, whatever a point says' },
};

export const POINT_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  coil: address('a coil'),
  discrete: address('a discrete input'),
  input: address('an input register'),
  holding: address('a holding register'),
  register: { type: ['integer', 'string'], description: 'Modicon notation, always one-based: 40101, 400101, "4x00101"' },
  model: {
    type: 'integer',
    minimum: 1,
    maximum: 65534,
    description: 'SunSpec model that the address counts from, its id being 0; where it is, is found by discovery',
  },
  type: { enum: [...TYPE_NAMES], description: 'Data type; default: bool for bits, uint16 for registers' },
  order: { enum: [...ORDERS], description: 'Byte order of this point' },
  byte: { enum: ['low', 'high'], default: 'low', description: 'Which byte of the register an 8-bit type takes' },
  bit: { type: 'integer', minimum: 0, maximum: 15, description: 'One bit of a register, 0 the lowest' },
  length: { type: 'integer', minimum: 1, maximum: 250, description: 'Length of a string or of bytes, in bytes' },
  encoding: { enum: [...ENCODINGS], default: 'ascii', description: 'Encoding of a string' },
  scale: { type: 'number', description: 'Engineering value = raw × scale + offset' },
  offset: { type: 'number', description: 'Engineering value = raw × scale + offset' },
  scale_from: {
    type: 'string',
    pattern: '^[a-z][a-z0-9_]*$',
    expected: 'the name of a point of the same device',
    description: 'The point that holds the scale factor: raw × 10^factor',
  },
  invalid: {
    type: 'array',
    items: { type: ['integer', 'string'], pattern: '^-?\\d+$|^0x[0-9a-fA-F]+$', expected: 'a raw value, decimal or 0x…' },
    description: 'Raw values that mean that there is no reading',
  },
  enum: labels('Labels by raw value', '^-?\\d+$'),
  flags: labels('Labels by bit, 0 the lowest', '^([0-9]|[1-5][0-9]|6[0-3])$'),
};

export const WRITE_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  function: {
    enum: ['auto', 'single', 'multiple'],
    default: 'auto',
    description: 'FC05/06 or FC15/16; auto tries the single one and remembers what the device takes',
  },
};
