import { type StatsListener, statSync, unwatchFile, watchFile } from 'node:fs';
import type { Bridge } from '../bridge.ts';
import type { Log } from '../drivers/driver.ts';
import { ConfigError, formatProblem, wordsOf } from '../model/errors.ts';
import { readConfig } from '../protocols.ts';

/** How often files are looked at for a change. */
const LOOK_EVERY = 1000;
/** An editor writes a file in several steps. */
const SETTLE = 300;
/** The time of a file is told in steps of some milliseconds. */
const GRAIN = 20;
/** Mistakes that are logged one by one. */
const MAX_TOLD = 20;

export interface ReloadSettings {
  readonly files: readonly string[];
  readonly log: Log;
  /** Told before and after each. */
  readonly onBegin: () => void;
  readonly onEnd: () => void;
}

/** Takes up the map again when it is asked to, or when a file of it changes: whole, or not at all. One at a time. */
export class Reloads {
  private readonly bridge: Bridge;
  private readonly settings: ReloadSettings;
  private readonly watched = new Set<string>();
  private watches = false;
  private settling: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private isWanted = false;
  private isStarted = false;
  /** When the map was last begun to be read: at first, as the process began. */
  private readAt = performance.timeOrigin;

  constructor(bridge: Bridge, settings: ReloadSettings) {
    this.bridge = bridge;
    this.settings = settings;
  }

  /** Until everything is there, what is asked for is only remembered. */
  start(): void {
    this.isStarted = true;
    if (this.isWanted) this.request();
  }

  /** What is asked for while one runs is done once more after it. */
  request(): void {
    this.isWanted = true;
    if (!this.isStarted) return;
    this.running ??= this.run().finally(() => {
      this.running = undefined;
    });
  }

  /** Looks at every file that the map was read from. */
  watch(): void {
    this.watches = true;
    this.follow(this.bridge.files);
  }

  async stop(): Promise<void> {
    this.follow([]);
    this.watches = false;
    this.isWanted = false;
    clearTimeout(this.settling);
    await this.running;
  }

  private async run(): Promise<void> {
    while (this.isWanted) {
      this.isWanted = false;
      this.settings.onBegin();
      await this.once();
      this.settings.onEnd();
    }
  }

  private async once(): Promise<void> {
    const { files, log } = this.settings;
    const { bridge } = this;
    let read: readonly string[] = [];
    try {
      this.readAt = Date.now();
      const config = readConfig(files);
      read = config.files;
      // What changes while this map is taken up is taken up after it.
      this.follow([...bridge.files, ...read]);
      for (const warning of config.warnings) log.warn({}, formatProblem(warning));
      await bridge.reload(config);
    } catch (error) {
      if (error instanceof ConfigError) read = error.files;
      const problems = error instanceof ConfigError ? error.problems.map(formatProblem) : [wordsOf(error)];
      for (const problem of problems.slice(0, MAX_TOLD)) log.warn({}, problem);
      if (problems.length > MAX_TOLD) log.warn({}, `… and ${problems.length - MAX_TOLD} more mistakes`);
      log.warn({ mistakes: problems.length }, 'the map was not taken up, and the one before stays in force');
    }
    // Those of a map that was refused too: it may be mended in any of them.
    this.follow([...bridge.files, ...read]);
  }

  private follow(files: readonly string[]): void {
    if (!this.watches) return;
    const now = new Set(files);
    for (const file of this.watched)
      if (!now.has(file)) {
        unwatchFile(file, this.onChange);
        this.watched.delete(file);
      }
    // One that is looked at already stays so: looking anew would miss what changed since it was read.
    for (const file of now)
      if (!this.watched.has(file)) {
        watchFile(file, { interval: LOOK_EVERY, persistent: false }, this.onChange);
        this.watched.add(file);
        if (changedAt(file) > this.readAt - GRAIN) this.noteChange();
      }
  }

  private readonly onChange: StatsListener = (now, before) => {
    if (now.mtimeMs !== before.mtimeMs || now.size !== before.size || now.ino !== before.ino) this.noteChange();
  };

  private noteChange(): void {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.request(), SETTLE);
  }
}

/** When the file was last written or put in place; 0 where there is none. */
function changedAt(file: string): number {
  try {
    return statSync(file).ctimeMs;
  } catch {
    return 0;
  }
}
