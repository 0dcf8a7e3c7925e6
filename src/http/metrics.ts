import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { isUp } from '../drivers/driver.ts';
import type { BridgeStatus } from '../mcp/status.ts';
import type { Counts } from '../model/counts.ts';
import type { Durations } from '../model/durations.ts';

/** Where the numbers come from. */
export interface MetricSources {
  readonly status: () => BridgeStatus;
  /** By connection: how long answers took. */
  readonly roundTrips: () => readonly (readonly [connection: string, durations: Durations])[];
  readonly clients: () => { readonly sessions: number; readonly streams: number };
  /** Calls by tool and outcome. */
  readonly calls: Counts;
  /** Notifications by kind. */
  readonly notifications: Counts;
  /** Writes by status. */
  readonly writes: Counts;
  /** HTTP answers by status. */
  readonly answers: Counts;
}

/** Gauges of the library that are called as if they were counters, which Prometheus' own tool finds fault with. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

type Values = Iterable<{ readonly labels: readonly string[]; readonly count: number }>;

/** Everything that is counted, in Prometheus' text format. Labels are names of the map alone, so that their number is bounded. */
export class Metrics {
  private readonly registry = new Registry();
  private readonly sources: MetricSources;
  private status: BridgeStatus;

  constructor(sources: MetricSources) {
    this.sources = sources;
    this.status = sources.status();
    const { registry } = this;
    collectDefaultMetrics({ register: registry });
    for (const name of MISNAMED) registry.removeSingleMetric(name);
    const each = <T>(items: readonly T[], value: (item: T) => number, ...names: ((item: T) => string)[]): Values =>
      items.map(item => ({ labels: names.map(name => name(item)), count: value(item) }));
    const common = (name: string, help: string, labelNames: string[]) => ({
      name: `fieldbridge_${name}`,
      help,
      labelNames,
      registers: [registry],
    });
    const counter = (name: string, help: string, labelNames: string[], values: () => Values): void => {
      new Counter({
        ...common(name, help, labelNames),
        collect() {
          fill(this, values());
        },
      });
    };
    const gauge = (name: string, help: string, labelNames: string[], values: () => Values): void => {
      new Gauge({
        ...common(name, help, labelNames),
        collect() {
          fill(this, values());
        },
      });
    };
    type Connection = BridgeStatus['connections'][number];
    type Device = BridgeStatus['devices'][number];
    const connections = (): readonly Connection[] => this.status.connections;
    const devices = (): readonly Device[] => this.status.devices;
    const connection = ({ name }: Connection): string => name;
    const device = ({ name }: Device): string => name;
    const deviceOf = (one: Device): string => one.connection;

    gauge('info', 'The bridge: always 1', ['name', 'version', 'writes'], () => {
      const { name, version, writes } = this.status.bridge;
      return [{ labels: [name, version, writes], count: 1 }];
    });
    gauge('connection_up', 'Whether a connection is there (1), also one that is closed while it is idle', ['connection', 'type'], () =>
      each(
        connections(),
        one => (isUp(one) ? 1 : 0),
        connection,
        ({ type }) => type,
      ),
    );
    counter('connects_total', 'Times that a connection was made', ['connection'], () =>
      each(connections(), one => one.connects, connection),
    );
    counter('requests_total', 'Requests to devices, or messages to a broker', ['connection'], () =>
      each(connections(), one => one.requests, connection),
    );
    counter('request_errors_total', 'Requests that failed, by reason', ['connection', 'reason'], () =>
      (['timeouts', 'exceptions', 'protocol_errors', 'discarded_replies', 'lost_requests'] as const).flatMap(key => [
        ...each(
          connections(),
          one => one[key],
          connection,
          () => REASONS[key],
        ),
      ]),
    );
    gauge('requests_queued', 'Requests that wait for the wire', ['connection'], () => each(connections(), one => one.queued, connection));
    counter('broker_messages_total', 'Messages of a broker by what became of them', ['connection', 'kind'], () =>
      connections().flatMap(one => Object.entries(one.messages ?? {}).map(([kind, count]) => ({ labels: [one.name, kind], count }))),
    );
    counter('polls_total', 'Cycles in which a device was read', ['connection', 'device'], () =>
      each(devices(), one => one.cycles, deviceOf, device),
    );
    counter('late_cycles_total', 'Cycles that were skipped because the one before was not over', ['connection', 'device'], () =>
      each(devices(), one => one.late_cycles, deviceOf, device),
    );
    gauge('device_up', 'Whether a device answers (1)', ['connection', 'device'], () =>
      each(devices(), ({ state }) => (state === 'polling' ? 1 : 0), deviceOf, device),
    );
    gauge('points', 'Points by the quality of their newest sample', ['quality'], () =>
      (['good', 'uncertain', 'bad'] as const).map(quality => ({ labels: [quality], count: this.status.bridge.points[quality] })),
    );
    counter('mcp_requests_total', 'Tool calls by outcome', ['tool', 'outcome'], () => sources.calls.entries());
    gauge('mcp_sessions', 'Sessions of clients over HTTP', [], () => [{ labels: [], count: sources.clients().sessions }]);
    gauge('mcp_streams', 'Streams of notifications over HTTP', [], () => [{ labels: [], count: sources.clients().streams }]);
    counter('notifications_total', 'Notifications that were sent', ['kind'], () => sources.notifications.entries());
    counter('writes_total', 'Writes by what became of them', ['status'], () => sources.writes.entries());
    gauge('writes_pending', 'Writes that wait for a person', [], () => [
      { labels: [], count: this.status.pending.filter(({ state }) => state === 'waiting').length },
    ]);
    gauge('write_trouble', 'Whether nothing can be written because it could not be recorded (1)', [], () => [
      { labels: [], count: this.status.bridge.write_trouble === undefined ? 0 : 1 },
    ]);
    counter('http_responses_total', 'Answers over HTTP by status', ['status'], () => sources.answers.entries());
    registry.registerMetric(new RoundTrips(sources.roundTrips) as never);
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  text(): Promise<string> {
    // Taken once, for all of them.
    this.status = this.sources.status();
    return this.registry.metrics();
  }
}

const REASONS = {
  timeouts: 'timeout',
  exceptions: 'exception',
  protocol_errors: 'protocol_error',
  discarded_replies: 'discarded_reply',
  lost_requests: 'no_connection',
} as const;

/** What was counted elsewhere, in place of what the metric held. */
function fill(metric: Counter | Gauge, values: Values): void {
  metric.reset();
  for (const { labels, count } of values) metric.labels(...labels).inc(count);
}

/** A histogram whose classes were counted elsewhere, in the shape that the registry asks its metrics for. */
class RoundTrips {
  readonly name = 'fieldbridge_round_trip_seconds';
  readonly help = 'From a request to its answer';
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  private readonly source: MetricSources['roundTrips'];

  constructor(source: MetricSources['roundTrips']) {
    this.source = source;
  }

  reset(): void {
    // They count from the start of the bridge.
  }

  get(): Promise<object> {
    const { name, help, type, aggregator } = this;
    const values = this.source().flatMap(([connection, durations]) => {
      const classes = durations.cumulative();
      const one = (suffix: string, value: number, more: object = {}) => ({
        metricName: `${name}_${suffix}`,
        labels: { connection, ...more },
        value,
      });
      return [
        ...classes.map(({ bound, count }) => one('bucket', count, { le: bound ?? '+Inf' })),
        one('sum', durations.sum),
        one('count', classes.at(-1)?.count ?? 0),
      ];
    });
    return Promise.resolve({ name, help, type, aggregator, values });
  }
}
