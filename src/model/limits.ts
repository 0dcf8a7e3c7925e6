/** Bounds on what clients may hold of the bridge; see `http.limits`. */
export interface ClientLimits {
  /** Sessions of clients older than 2026-07-28. */
  readonly sessions: number;
  /** Streams of notifications, of all clients together. */
  readonly streams: number;
  /** Of them, those of one caller. */
  readonly streamsPerPrincipal: number;
  /** Resources that one connection subscribes to. */
  readonly urisPerStream: number;
  /** Bytes that wait for a client that does not read. */
  readonly unsent: number;
}

export interface HttpLimits extends ClientLimits {
  /** Bytes of one request. */
  readonly body: number;
  readonly connections: number;
  /** Of one caller; twice as many may come at once. */
  readonly requestsPerSecond: number;
}

export const DEFAULT_LIMITS: HttpLimits = {
  body: 64_000,
  connections: 512,
  sessions: 256,
  streams: 256,
  streamsPerPrincipal: 64,
  urisPerStream: 256,
  unsent: 1_000_000,
  requestsPerSecond: 50,
};
