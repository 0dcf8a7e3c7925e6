/** Severities of a log message that a client may ask for, least first (MCP 2025-11-25, logging). */
export const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;
export type Level = (typeof LEVELS)[number];

export interface Notice {
  readonly level: Level;
  /** What it is about: the name of a connection. */
  readonly logger: string;
  readonly text: string;
}

/** What the bridge says of its connections, for clients that have asked to hear it. */
export class Notices {
  private readonly listeners = new Set<(notice: Notice) => void>();

  say(notice: Notice): void {
    for (const listener of this.listeners) listener(notice);
  }

  add(listener: (notice: Notice) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
