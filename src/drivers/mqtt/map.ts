import { ExpressionError } from '../../expression/expression.ts';
import { PayloadExpression } from '../../expression/payload.ts';
import { Linear } from '../../model/decimal.ts';
import { parseDuration } from '../../model/duration.ts';
import type { JsonSchema } from '../../model/json-schema.ts';
import { checkNumbers, checkWriteLimits, commonOf, writeRule } from '../../model/map-values.ts';
import type { Point, ValueKind, WriteRule } from '../../model/point.ts';
import type { ConfigPath, DeviceInput, Protocol, RawMap } from '../../model/protocol.ts';
import type { Value } from '../../model/value.ts';
import { decodePayload, encodePayload } from './codec.ts';
import { CONNECTIONS, DEVICE_PROPERTIES, POINT_PROPERTIES, WRITE_PROPERTIES } from './map-schema.ts';
import { MQTT_TYPES, type MqttPoint, type MqttType, wholeLimits } from './point.ts';

export const mqttProtocol: Protocol = {
  connections: CONNECTIONS,
  endpoint: connection => `${String(connection.url)} ${String(connection.client_id ?? '')}`,
  deviceProperties: DEVICE_PROPERTIES,
  pointProperties: POINT_PROPERTIES,
  sharedProperties: ['type', 'scale', 'offset', 'enum'],
  pointSources: ['topic'],
  writeProperties: WRITE_PROPERTIES,
  compile: compileDevice,
};

function compileDevice(input: DeviceInput): readonly Point[] {
  return Object.entries((input.raw.points ?? {}) as Record<string, RawMap>).flatMap(
    ([id, raw]) => compilePoint(input, id, raw ?? {}) ?? [],
  );
}

function compilePoint(input: DeviceInput, id: string, raw: RawMap): MqttPoint | undefined {
  const path: ConfigPath = [...input.path, 'points', id];
  let sound = true;
  const report = (message: string, ...keys: string[]): void => {
    sound = false;
    input.report([...path, ...keys], message);
  };
  if (typeof raw.topic !== 'string') return undefined;
  const type = String(raw.type ?? 'float64') as MqttType;
  if (!MQTT_TYPES.includes(type)) report(`a payload has one of the types ${MQTT_TYPES.join(', ')}; got ${type}`, 'type');
  if (!isFilter(raw.topic)) report('+ and # stand for whole levels, # only for the last', 'topic');
  if ((raw.on !== undefined || raw.off !== undefined) && type !== 'bool')
    report('on and off are payloads of a bool', raw.on === undefined ? 'off' : 'on');
  if ((raw.on === undefined) !== (raw.off === undefined)) report('on and off go together', raw.on === undefined ? 'off' : 'on');
  const whole = wholeLimits(type) !== undefined;
  if (raw.enum !== undefined && !whole) report(`enum needs a whole-number type, not ${type}`, 'enum');
  const numeric = type !== 'bool' && type !== 'string' && raw.enum === undefined;
  for (const key of ['scale', 'offset', 'range', 'deadband'] as const)
    if (raw[key] !== undefined && !numeric) report(`${key} needs a number`, key);
  checkNumbers(raw, report);
  const expression = compileExpression(raw.value, message => report(message, 'value'));
  const codes =
    raw.enum === undefined
      ? undefined
      : new Map(Object.entries(raw.enum as Record<string, string>).map(([code, label]) => [Number(code), label]));
  const linear = new Linear(raw.scale === 0 ? 1 : Number(raw.scale ?? 1), Number(raw.offset ?? 0));
  const value = kindOf(type, codes, Number.isInteger(raw.scale ?? 1) && Number.isInteger(raw.offset ?? 0));
  const write = raw.write as RawMap | undefined;
  if (write !== undefined && typeof write.topic !== 'string') report('a write needs the topic that it is published to', 'write');
  if (typeof write?.topic === 'string' && /[+#]/.test(write.topic))
    report('a write is published to one topic, without + and #', 'write', 'topic');
  const rule = write === undefined ? undefined : writeRule(write);
  if (write !== undefined && rule !== undefined) checkWriteLimits(write, rule, value, report);
  if (!sound) return undefined;
  const partial = {
    ...commonOf(input, id, raw),
    type,
    value,
    pollInterval: parseDuration(raw.poll_interval ?? input.raw.poll_interval ?? '1s') ?? 1000,
    staleAfter: parseDuration(raw.stale_after ?? input.raw.stale_after) ?? Number.POSITIVE_INFINITY,
    topic: raw.topic,
    expression,
    on: raw.on as string | undefined,
    off: raw.off as string | undefined,
    linear,
    codes,
    publish:
      write === undefined
        ? undefined
        : { topic: String(write.topic), qos: Number(write.qos ?? 1) as 0 | 1 | 2, retain: write.retain === true },
  };
  if (rule === undefined) return Object.freeze(partial);
  const point: MqttPoint = {
    ...partial,
    write: rule,
    writeSchema: writeSchemaOf(value, type, rule),
    canonical: (candidate: Value) => canonical(point, candidate),
  };
  return Object.freeze(point);
}

/** What the state topic will say once it is so, read as any message. */
function canonical(point: MqttPoint, value: Value): Value {
  const payload = encodePayload(point, value);
  const reading = decodePayload({ ...point, expression: undefined }, point.topic, Buffer.from(payload));
  return reading.quality === 'bad' ? value : reading.value;
}

function compileExpression(text: unknown, report: (message: string) => void): PayloadExpression | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    return PayloadExpression.compile(text);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    report(error.message);
    return undefined;
  }
}

/** MQTT 5.0, 4.7.1: wildcards are whole levels. */
function isFilter(topic: string): boolean {
  const levels = topic.split('/');
  return levels.every((level, i) => level === '+' || (level === '#' && i === levels.length - 1) || !/[+#]/.test(level));
}

function kindOf(type: MqttType, codes: ReadonlyMap<number, string> | undefined, whole: boolean): ValueKind {
  if (codes !== undefined) return { kind: 'enum', labels: [...codes.values()] };
  if (type === 'bool') return { kind: 'bool' };
  return type === 'string' ? { kind: 'text' } : { kind: 'number', integer: wholeLimits(type) !== undefined && whole };
}

function writeSchemaOf(value: ValueKind, type: MqttType, rule: WriteRule): JsonSchema {
  if (value.kind === 'bool') return { type: 'boolean' };
  if (value.kind === 'enum') return { type: 'string', enum: value.labels };
  if (value.kind === 'text') return { type: 'string' };
  const bounds = { ...(rule.min !== undefined && { minimum: rule.min }), ...(rule.max !== undefined && { maximum: rule.max }) };
  return {
    type:
      type.endsWith('64') && type !== 'float64' ? ['number', 'string'] : value.kind === 'number' && value.integer ? 'integer' : 'number',
    ...bounds,
  };
}
