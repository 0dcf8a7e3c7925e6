import { duration, type JsonSchema, object } from '../../model/json-schema.ts';

/** The grammar of MQTT connections and points: what the protocol adds to a map's JSON Schema. */
const TOPIC = { type: 'string', minLength: 1, maxLength: 1000 } as const;

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
          'Client id; default: fieldbridge-, the name of the connection and the process id, so give one where the session is to outlive the process',
      },
      protocol_version: { enum: [5, 4], default: 5, description: 'MQTT 5, or 4 for 3.1.1' },
      keepalive: duration('How often the broker hears that the bridge is there', '30s'),
      timeout: duration('For connecting, and for the acknowledgement of what is published', '5s'),
      clean: { type: 'boolean', default: true, description: 'false: the broker keeps the session while the bridge is away' },
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
    },
    ['url'],
  ),
};

export const DEVICE_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  availability: object(
    {
      topic: { ...TOPIC, description: 'Topic that tells whether the device is there' },
      online: { type: 'string', default: 'online', description: 'Payload while it is' },
      offline: { type: 'string', default: 'offline', description: 'Payload while it is not' },
    },
    ['topic'],
    { description: 'While the device says that it is offline, its points are bad' },
  ),
};

export const POINT_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  topic: { ...TOPIC, description: 'Topic of the value; + and # stand for any level, and for all below' },
  value: {
    type: 'string',
    minLength: 1,
    maxLength: 2000,
    description: 'CEL expression over payload (JSON where it parses, else text) and topic; default: the payload',
  },
  on: { type: 'string', description: 'Payload of true' },
  off: { type: 'string', description: 'Payload of false' },
};

export const WRITE_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  topic: { ...TOPIC, description: 'Topic that a write is published to' },
  qos: { enum: [0, 1, 2], default: 1, description: 'MQTT quality of service' },
  retain: { type: 'boolean', default: false, description: 'Whether the broker keeps the command; it seldom should' },
};
