import { duration, type JsonSchema, object } from '../../model/json-schema.ts';
import { ENCODINGS } from '../modbus/types.ts';

/** The grammar of MQTT connections and points: what the protocol adds to a map's JSON Schema. */
const TOPIC = { type: 'string', minLength: 1, maxLength: 1000 } as const;

/** Payloads that are bytes, or text that stands for bytes. */
export const BYTE_ENCODINGS = ['binary', 'hex', 'base64'] as const;

const tls = object(
  {
    ca: { type: 'string', fileContent: true, description: 'File with the certificates of the authorities that are trusted' },
    cert: { type: 'string', fileContent: true, description: 'File with the certificate of the bridge' },
    key: { type: 'string', fileContent: true, description: 'File with the key of that certificate' },
    server_name: { type: 'string', description: 'Name that the broker has in its certificate, if it is not the host' },
  },
  [],
  { description: 'Certificates for mqtts and wss' },
);

const availability = object(
  {
    topic: { ...TOPIC, description: 'The topic' },
    online: { type: 'string', default: 'online', description: 'Payload while it is there' },
    offline: { type: 'string', default: 'offline', description: 'Payload while it is not' },
  },
  ['topic'],
);

const id = { type: 'string', pattern: '^[^/+#]+$', maxLength: 200, expected: 'a name without / + and #' } as const;
const sparkplug = object({
  group: { ...id, description: 'Group id' },
  edge_node: { ...id, description: 'Edge node id' },
  device: { ...id, description: "Device id; without one, the edge node's own metrics" },
});

export const CONNECTIONS: Readonly<Record<string, JsonSchema>> = {
  mqtt: object(
    {
      url: {
        type: 'string',
        pattern: '^(mqtt|mqtts|ws|wss)://[^/\\s]+',
        expected: 'a broker as mqtt://host:1883, mqtts://, ws:// or wss://',
        description: 'The broker',
      },
      username: { type: 'string', description: 'Name to log in with' },
      password: { type: 'string', description: 'Password to log in with' },
      client_id: {
        ...TOPIC,
        maxLength: 200,
        description:
          'Client id; default: fieldbridge-, the name of the connection and something that no other bridge has, so give one where the session is to outlive the process',
      },
      protocol_version: { enum: [5, 4], default: 5, description: 'MQTT 5, or 4 for 3.1.1' },
      keepalive: duration('How often the broker hears that the bridge is there', '30s'),
      timeout: duration('For connecting, and for the acknowledgement of what is published', '5s'),
      clean: { type: 'boolean', default: true, description: 'false: the broker keeps the session while the bridge is away' },
      session_expiry: duration('MQTT 5: how long the broker keeps the session while the bridge is away', '1h'),
      payload_limit: {
        type: 'integer',
        minimum: 1,
        maximum: 16_777_216,
        default: 65_536,
        description: 'Bytes of a payload that are looked at',
      },
      reconnect: object({ initial: duration('First pause before connecting again', '1s'), max: duration('Longest pause', '30s') }, [], {
        description: 'Pauses between attempts to connect, doubling from the first to the longest',
      }),
      tls,
      availability: {
        ...availability,
        description: 'Where the bridge tells, retained and as its will, whether it is there; also when it does not publish anything else',
      },
      sparkplug: {
        ...sparkplug,
        description:
          'The devices of this connection are metrics of this Sparkplug B edge node; a device may name another in its own `sparkplug`',
      },
    },
    ['url'],
  ),
};

export const DEVICE_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  availability: { ...availability, description: 'While the device says that it is offline, its points are bad' },
  sparkplug: { ...sparkplug, description: 'The Sparkplug B edge node and device that it is; what is not said here, the connection says' },
};

const expression = { type: 'string', minLength: 1, maxLength: 2000 } as const;

export const POINT_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  topic: { ...TOPIC, description: 'Topic of the value; + and # stand for any level, and for all below' },
  value: {
    ...expression,
    description: 'CEL expression over payload (JSON where it parses, else text) and topic; default: the payload',
  },
  timestamp: {
    ...expression,
    description: 'CEL expression over payload and topic for the time of the source: RFC 3339, or seconds or milliseconds since 1970',
  },
  encoding: {
    enum: [...ENCODINGS, ...BYTE_ENCODINGS],
    description:
      'Of a string in registers or payloads: ascii (default), latin1 or utf8. Of numbers and bytes in a payload: binary, or hex or base64 text that stands for bytes',
  },
  at: {
    type: 'integer',
    minimum: 0,
    maximum: 65_535,
    description: 'Byte at which the value starts within a longer payload; without it the payload is the value and nothing else',
  },
  on: { type: 'string', description: 'Payload of true' },
  off: { type: 'string', description: 'Payload of false' },
  metric: { type: 'string', minLength: 1, maxLength: 500, description: 'Sparkplug B: name of the metric, as the birth certificate has it' },
};

export const WRITE_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  topic: { ...TOPIC, description: 'Topic that a write is published to' },
  qos: { enum: [0, 1, 2], default: 1, description: 'MQTT quality of service' },
  retain: { type: 'boolean', default: false, description: 'Whether the broker keeps the command; it seldom should' },
  payload: {
    ...expression,
    description: 'CEL expression over value, the raw one; a map or a list becomes JSON. Default: the value itself, or on and off',
  },
  response: object(
    {
      topic: { ...TOPIC, description: 'Topic that the device answers on' },
      within: duration('How long it may take', '2s'),
      ok: { ...expression, description: 'CEL expression over the payload of the answer: true where the device did it' },
    },
    ['topic'],
    { description: 'MQTT 5 request and response: the device answers with the correlation data of the command' },
  ),
};
