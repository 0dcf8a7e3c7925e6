import fc from 'fast-check';
import sparkplug from 'sparkplug-payload';
import { expect, test } from 'vitest';
import { decodeSparkplug, encodeSparkplug, type MetricType } from '../../../src/drivers/mqtt/sparkplug/payload.ts';

const tahu = sparkplug.get('spBv1.0');

/** Values of each type that the specification has for a single value (Sparkplug 3.0, 6.4.16). */
const VALUES: Readonly<Record<MetricType, fc.Arbitrary<boolean | number | bigint | string>>> = {
  int8: fc.integer({ min: -128, max: 127 }),
  int16: fc.integer({ min: -32_768, max: 32_767 }),
  int32: fc.integer(),
  int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  uint8: fc.integer({ min: 0, max: 255 }),
  uint16: fc.integer({ min: 0, max: 65_535 }),
  uint32: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  uint64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  float32: fc.float({ noNaN: true, noDefaultInfinity: true }).map(value => Number(Number(value).toPrecision(6))),
  float64: fc.double({ noNaN: true }),
  bool: fc.boolean(),
  string: fc.string({ unit: 'binary' }),
  unix_ms: fc.integer({ min: 0, max: 4_102_444_800_000 }),
  bytes: fc.uint8Array({ maxLength: 50 }).map(bytes => Buffer.from(bytes).toString('hex')),
};
const TYPES = Object.keys(VALUES) as MetricType[];

test.each(TYPES)('%s: what is encoded is decoded', type => {
  fc.assert(
    fc.property(VALUES[type], value => {
      const bytes = encodeSparkplug({ seq: 7, timestamp: 1_700_000_000_000, metrics: [{ name: 'a/b', type, value, timestamp: 5 }] });
      const payload = decodeSparkplug(bytes);
      expect(payload).toMatchObject({ seq: 7, timestamp: 1_700_000_000_000 });
      const [metric] = payload?.metrics ?? [];
      expect(metric).toMatchObject({ name: 'a/b', type, timestamp: 5, isNull: false, isHistorical: false });
      const decoded = metric?.valueAs(type);
      if (type === 'float32') expect(Math.fround(Number(decoded))).toBe(Math.fround(Number(value)));
      else expect(decoded).toEqual(value);
    }),
  );
});

test('the library of the Tahu project reads the same', () => {
  const metrics = [
    { name: 'i', type: 'int16', value: -5, timestamp: 1 },
    { name: 'd', type: 'float64', value: 2.5, timestamp: 1 },
    { name: 's', type: 'string', value: 'x', timestamp: 1, properties: { engUnit: { type: 'string', value: '°C' } } },
    { name: 'n', type: 'bool', value: null, timestamp: 1, isHistorical: true },
  ] as const;
  expect(tahu?.decodePayload(encodeSparkplug({ timestamp: 1, metrics })).metrics).toMatchObject([
    { name: 'i', type: 'Int16', value: -5 },
    { name: 'd', type: 'Double', value: 2.5 },
    { name: 's', type: 'String', value: 'x', properties: { engUnit: { type: 'String', value: '°C' } } },
    { name: 'n', type: 'Boolean', value: null, isHistorical: true },
  ]);
});

test.each(['DEFLATE', 'GZIP'] as const)('a payload that was compressed by %s', async algorithm => {
  const { deflateSync, gzipSync } = await import('node:zlib');
  const inner = Buffer.from(tahu?.encodePayload({ timestamp: 1, seq: 3, metrics: [{ name: 'a', type: 'Int8', value: 4 }] }) ?? []);
  const body = (algorithm === 'GZIP' ? gzipSync : deflateSync)(inner);
  const outer = Buffer.from(
    tahu?.encodePayload({
      timestamp: 1,
      uuid: 'SPBV1.0_COMPRESSED',
      body,
      metrics: [{ name: 'algorithm', type: 'String', value: algorithm }],
    }) ?? [],
  );
  const payload = decodeSparkplug(outer);
  expect(payload?.seq).toBe(3);
  expect(payload?.metrics.map(metric => [metric.name, metric.valueAs('int8')])).toEqual([['a', 4]]);
});

test('a payload that swells beyond measure as it is inflated is none', async () => {
  const { deflateSync } = await import('node:zlib');
  const body = deflateSync(Buffer.alloc(50_000_000));
  expect(
    decodeSparkplug(Buffer.from(tahu?.encodePayload({ timestamp: 1, uuid: 'SPBV1.0_COMPRESSED', body, metrics: [] }) ?? [])),
  ).toBeUndefined();
});

test('whatever the bytes are, nothing is thrown, and no value is made of what does not fit', () => {
  const sound = encodeSparkplug({
    seq: 1,
    timestamp: 1,
    metrics: TYPES.map(type => ({
      name: type,
      type,
      value: type === 'bool' ? true : type === 'string' || type === 'bytes' ? 'ab' : 1,
      timestamp: 1,
    })),
  });
  const mutated = fc.tuple(fc.nat(sound.length - 1), fc.nat(255), fc.nat(sound.length)).map(([at, byte, length]) => {
    const bytes = Buffer.from(sound);
    bytes[at] = byte;
    return bytes.subarray(0, length);
  });
  const any = fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.oneof(mutated, any), bytes => {
      for (const metric of decodeSparkplug(bytes)?.metrics ?? [])
        for (const type of TYPES) {
          const value = metric.valueAs(type);
          if (value === undefined) continue;
          const kind = type === 'bool' ? ['boolean'] : type === 'string' || type === 'bytes' ? ['string'] : ['number', 'bigint'];
          expect(kind).toContain(typeof value);
        }
    }),
    { numRuns: 3000 },
  );
});
