import { ExpressionError } from '../../expression/expression.ts';
import { PayloadExpression } from '../../expression/payload.ts';
import { Linear } from '../../model/decimal.ts';
import { parseDuration } from '../../model/duration.ts';
import type { JsonSchema } from '../../model/json-schema.ts';
import { checkNumbers, checkWriteLimits, commonOf, writeRule, writeSchemaOf } from '../../model/map-values.ts';
import type { Point, ValueKind, WriteRule } from '../../model/point.ts';
import type { ConfigPath, DeviceInput, Protocol, RawMap } from '../../model/protocol.ts';
import type { Value } from '../../model/value.ts';
import { binaryOf, kindOfBinary } from './binary.ts';
import { convert, rawOf } from './codec.ts';
import { BYTE_ENCODINGS, CONNECTIONS, DEVICE_PROPERTIES, POINT_PROPERTIES, WRITE_PROPERTIES } from './map-schema.ts';
import { type Conversion, type MetricPoint, MQTT_TYPES, type MqttPoint, type Publication, wholeLimits } from './point.ts';
import { addressOf } from './sparkplug/address.ts';
import { isFilter, TopicIndex } from './topics.ts';

export const mqttProtocol: Protocol = {
  connections: CONNECTIONS,
  endpoint: connection => `${String(connection.url)} ${String(connection.client_id ?? '')}`,
  checkConnection: (raw, report) => {
    if (raw.clean === false && raw.client_id === undefined)
      report('a session that the broker keeps needs a client_id, so that the bridge finds it again', 'clean');
  },
  deviceProperties: DEVICE_PROPERTIES,
  pointProperties: POINT_PROPERTIES,
  sharedProperties: ['type', 'scale', 'offset', 'enum', 'flags', 'order', 'length', 'invalid', 'bit'],
  pointSources: ['topic', 'metric'],
  writeOnlySource: 'topic',
  writeProperties: WRITE_PROPERTIES,
  pointsOptional: (connection, device) => (device.sparkplug ?? connection.sparkplug) !== undefined,
  hearers: points => {
    const index = new TopicIndex<Point>();
    for (const point of points as readonly Partial<MqttPoint>[]) if (point.topic !== undefined) index.add(point.topic, point as Point);
    return topic => index.find(topic)[0];
  },
  compile: compileDevice,
};

/** Keys that say how a value lies in bytes. */
const BYTE_KEYS = ['order', 'length', 'invalid', 'bit', 'flags', 'at'] as const;

type Report = (message: string, ...keys: string[]) => void;

function compileDevice(input: DeviceInput): readonly Point[] {
  const { raw } = input;
  const { sparkplug } = input.connection;
  const isSparkplug = (raw.sparkplug ?? sparkplug) !== undefined;
  if (isSparkplug) {
    const missing = addressOf(raw.sparkplug, sparkplug).missing;
    if (missing.length > 0)
      input.report([...input.path, 'sparkplug'], `a Sparkplug device needs ${missing.join(' and ')}, here or in its connection`);
    if (raw.availability !== undefined)
      input.report([...input.path, 'availability'], 'Sparkplug tells by birth and death certificates whether a device is there');
  }
  const availability = raw.availability as RawMap | undefined;
  if (typeof availability?.topic === 'string' && !isFilter(availability.topic))
    input.report([...input.path, 'availability', 'topic'], '+ and # stand for whole levels, # only for the last');
  return Object.entries((raw.points ?? {}) as Record<string, RawMap>).flatMap(([id, point]) => {
    const path: ConfigPath = [...input.path, 'points', id];
    let sound = true;
    const report: Report = (message, ...keys) => {
      sound = false;
      input.report([...path, ...keys], message);
    };
    const compiled = isSparkplug ? compileMetric(input, id, point ?? {}, report) : compilePoint(input, id, point ?? {}, report);
    return sound && compiled !== undefined ? Object.freeze(compiled) : [];
  });
}

function compilePoint(input: DeviceInput, id: string, raw: RawMap, report: Report): MqttPoint | undefined {
  const write = raw.write as RawMap | undefined;
  if (raw.metric !== undefined) {
    report('a metric needs a Sparkplug device: `sparkplug` with group and edge_node, in the connection or the device', 'metric');
    return undefined;
  }
  if (typeof raw.topic !== 'string' && typeof write?.topic !== 'string') return undefined;
  const topic = typeof raw.topic === 'string' ? raw.topic : undefined;
  const isBinary = raw.type === 'bytes' || raw.encoding !== undefined;
  const type = String(raw.type ?? 'float64');
  const isText = type === 'string' && (raw.encoding === undefined || raw.encoding === 'utf8') && raw.length === undefined;
  if (!isBinary) checkTextual(raw, type, report);
  const binary = isBinary && !isText ? binaryOf(raw, type, write !== undefined, report) : undefined;
  if (topic !== undefined && !isFilter(topic)) report('+ and # stand for whole levels, # only for the last', 'topic');
  if (topic?.startsWith('$share/') === true)
    report('a shared subscription gets a part of the messages, and the bridge needs all of them; leave $share and its group out', 'topic');
  if (topic === undefined && raw.value !== undefined) report('value is a part of a message; this point has no topic to hear any', 'value');
  checkNumbers(raw, report);
  const conversion = conversionOf(raw, type, isBinary, report);
  const value = binary?.codec === undefined && type !== 'bytes' ? kindOf(type, conversion, raw) : kindOfBinary(raw, type);
  const rule = write === undefined ? undefined : ruleOf(write, topic);
  const publish = write === undefined ? undefined : publicationOf(input, write, report);
  if (write !== undefined && rule !== undefined) checkWriteLimits(write, rule, value, report);
  if (binary !== undefined && binary.encoding === 'binary' && raw.value !== undefined)
    report('value looks into JSON or text; in a binary payload `at` says where the value is', 'value');
  if (write !== undefined && binary?.isAll === false)
    report('a value that is a part of a payload can not be written: the rest of the payload is not known', 'write');
  if (write?.payload !== undefined && binary?.encoding === 'binary')
    report('a payload expression makes text; this point is binary', 'write', 'payload');
  const partial: MqttPoint = {
    ...commonOf(input, id, raw),
    ...conversion,
    type,
    value,
    pollInterval: parseDuration(raw.poll_interval ?? input.raw.poll_interval ?? '1s') ?? 1000,
    staleAfter: parseDuration(raw.stale_after ?? input.raw.stale_after) ?? Number.POSITIVE_INFINITY,
    topic,
    expression: compileExpression(raw.value, message => report(message, 'value')),
    sourceTime: compileExpression(raw.timestamp, message => report(message, 'timestamp')),
    binary,
    publish,
  };
  return rule === undefined ? partial : writable(partial, rule, candidate => canonical(partial, candidate), binary?.size);
}

/** A value that a device's own words make of what was asked for: read as any message of it. */
function canonical(point: MqttPoint, value: Value): Value {
  if (point.binary?.codec !== undefined) return point.binary.codec.canonical(value);
  if (point.binary !== undefined) return String(value).toLowerCase();
  return canonicalOf(point, value);
}

function canonicalOf(point: Point & Conversion, value: Value): Value {
  const reading = convert(point, rawOf(point, value));
  return reading.quality === 'bad' ? value : reading.value;
}

function writable<P extends Point>(point: P, rule: WriteRule, canonicalValue: (value: Value) => Value, length?: number): P {
  const { value, type } = point;
  const ofNumber = (): JsonSchema => numberSchemaOf(value.kind === 'number' && value.integer, type, rule);
  return { ...point, write: rule, writeSchema: writeSchemaOf(value, ofNumber, length), canonical: canonicalValue };
}

function compileMetric(input: DeviceInput, id: string, raw: RawMap, report: Report): MetricPoint | undefined {
  if (raw.metric === undefined && raw.topic === undefined)
    report('a point of a Sparkplug device needs `metric`, the name that the birth certificate has', 'metric');
  if (raw.topic !== undefined) report('the points of a Sparkplug device are metrics; give the topic to another device', 'topic');
  for (const key of ['value', 'timestamp', 'encoding', 'on', 'off', ...BYTE_KEYS] as const)
    if (raw[key] !== undefined) report(`${key} does not go with a metric: Sparkplug says what it is`, key);
  const write = raw.write as RawMap | undefined;
  for (const key of Object.keys(WRITE_PROPERTIES))
    if (write?.[key] !== undefined) report(`${key} does not go with a metric: a write is a Sparkplug command`, 'write', key);
  if (write !== undefined && raw.type === undefined)
    report('a metric that can be written needs its type here, so that its limits are known before the device is there', 'type');
  const type = String(raw.type ?? 'unknown');
  if (raw.type !== undefined && !(MQTT_TYPES as readonly string[]).includes(type))
    report(`a metric has one of the types ${MQTT_TYPES.join(', ')}; got ${type}`, 'type');
  checkNumbers(raw, report);
  const conversion = conversionOf(raw, type, false, report);
  const value = kindOf(type, conversion, raw);
  const rule = write === undefined ? undefined : writeRule(write);
  if (write !== undefined && rule !== undefined) checkWriteLimits(write, rule, value, report);
  const partial: MetricPoint = {
    ...commonOf(input, id, raw),
    ...conversion,
    type,
    value,
    pollInterval: parseDuration(raw.poll_interval ?? input.raw.poll_interval ?? '1s') ?? 1000,
    staleAfter: parseDuration(raw.stale_after ?? input.raw.stale_after) ?? Number.POSITIVE_INFINITY,
    metric: String(raw.metric),
    typed: raw.type !== undefined,
  };
  return rule === undefined ? partial : writable(partial, rule, candidate => canonicalOf(partial, candidate));
}

function checkTextual(raw: RawMap, type: string, report: Report): void {
  if (!(MQTT_TYPES as readonly string[]).includes(type))
    report(
      `a payload has one of the types ${MQTT_TYPES.join(', ')}, or bytes; got ${type}. Others need an encoding, such as binary`,
      'type',
    );
  for (const key of BYTE_KEYS)
    if (raw[key] !== undefined) report(`${key} says how a value lies in bytes; it goes with encoding ${BYTE_ENCODINGS.join(', ')}`, key);
}

function conversionOf(raw: RawMap, type: string, isBinary: boolean, report: Report): Conversion {
  if ((raw.on !== undefined || raw.off !== undefined) && (type !== 'bool' || isBinary))
    report('on and off are payloads of a bool', raw.on === undefined ? 'off' : 'on');
  if ((raw.on === undefined) !== (raw.off === undefined)) report('on and off go together', raw.on === undefined ? 'off' : 'on');
  if (raw.on !== undefined && raw.on === raw.off) report('on and off are the same payload', 'off');
  const whole = wholeLimits(type) !== undefined;
  if (raw.enum !== undefined && !whole) report(`enum needs a whole-number type, not ${type}`, 'enum');
  const numeric = !['bool', 'string', 'bytes', 'unix_s', 'unix_ms'].includes(type) && raw.enum === undefined && raw.flags === undefined;
  for (const key of ['scale', 'offset', 'range', 'deadband'] as const)
    if (raw[key] !== undefined && !numeric) report(`${key} needs a number`, key);
  return {
    linear: new Linear(raw.scale === 0 ? 1 : Number(raw.scale ?? 1), Number(raw.offset ?? 0)),
    codes:
      raw.enum === undefined
        ? undefined
        : new Map(Object.entries(raw.enum as Record<string, string>).map(([code, label]) => [Number(code), label])),
    on: raw.on as string | undefined,
    off: raw.off as string | undefined,
  };
}

/** Without a topic that tells the state there is nothing to verify by. */
function ruleOf(write: RawMap, topic: string | undefined): WriteRule {
  const { verify, ...rule } = writeRule(write);
  return topic === undefined || verify === undefined ? rule : { ...rule, verify };
}

function publicationOf(input: DeviceInput, write: RawMap, report: Report): Publication | undefined {
  if (typeof write.topic !== 'string') {
    report('a write needs the topic that it is published to', 'write');
    return undefined;
  }
  if (/[+#]/.test(write.topic)) report('a write is published to one topic, without + and #', 'write', 'topic');
  if (write.retain === true)
    input.warn(
      [...input.path, 'points'],
      `${write.topic}: a retained command is carried out once more by every device that comes back; leave retain out if the device does not ask for it`,
    );
  const response = write.response as RawMap | undefined;
  if (response !== undefined && Number(input.connection.protocol_version ?? 5) !== 5)
    report('answers with correlation data need MQTT 5 (protocol_version: 5)', 'write', 'response');
  if (typeof response?.topic === 'string' && /[+#]/.test(response.topic))
    report('a device answers on one topic, without + and #', 'write', 'response', 'topic');
  return {
    topic: write.topic,
    qos: Number(write.qos ?? 1) as 0 | 1 | 2,
    retain: write.retain === true,
    payload: compileExpression(write.payload, message => report(message, 'write', 'payload'), 'value'),
    response:
      response === undefined
        ? undefined
        : {
            topic: String(response.topic),
            within: parseDuration(response.within) ?? 2000,
            ok: compileExpression(response.ok, message => report(message, 'write', 'response', 'ok')),
          },
  };
}

function compileExpression(
  text: unknown,
  report: (message: string) => void,
  over: 'message' | 'value' = 'message',
): PayloadExpression | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    return PayloadExpression.compile(text, over);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    report(error.message);
    return undefined;
  }
}

function kindOf(type: string, { codes }: Conversion, raw: RawMap): ValueKind {
  if (codes !== undefined) return { kind: 'enum', labels: [...codes.values()] };
  if (type === 'bool') return { kind: 'bool' };
  const isScaledWhole = Number.isInteger(raw.scale ?? 1) && Number.isInteger(raw.offset ?? 0);
  return type === 'string' ? { kind: 'text' } : { kind: 'number', integer: wholeLimits(type) !== undefined && isScaledWhole };
}

function numberSchemaOf(integer: boolean, type: string, rule: WriteRule): JsonSchema {
  return {
    type: /^u?int64$/.test(type) ? ['number', 'string'] : integer ? 'integer' : 'number',
    ...(rule.min !== undefined && { minimum: rule.min }),
    ...(rule.max !== undefined && { maximum: rule.max }),
  };
}
