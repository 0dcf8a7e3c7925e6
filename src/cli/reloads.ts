import { type StatsListener, unwatchFile, watchFile } from 'node:fs';
import { resolve } from 'node:path';
import type { Bridge } from '../bridge.ts';
import type { Log } from '../drivers/driver.ts';
import { ConfigError, formatProblem, wordsOf } from '../model/errors.ts';
import { readConfig } from '../protocols.ts';

/** How often files are looked at for a change. */
const LOOK_EVERY = 1000;
/** An editor writes a file in several steps. */
const SETTLE = 300;
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
  private watched: readonly string[] = [];
  private watches = false;
  private settling: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private isWanted = false;

  constructor(bridge: Bridge, settings: ReloadSettings) {
    this.bridge = bridge;
    this.settings = settings;
  }

  /** What is asked for while one runs is done once more after it. */
  request(): void {
    this.isWanted = true;
    this.running ??= this.run().finally(() => {
      this.running = undefined;
    });
  }

  /** Looks at every file that the map was read from. */
  watch(): void {
    this.watches = true;
    this.look(this.bridge.files);
  }

  async stop(): Promise<void> {
    this.watches = false;
    this.isWanted = false;
    clearTimeout(this.settling);
    this.look([]);
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
    try {
      const config = readConfig(files);
      for (const warning of config.warnings) log.warn({}, formatProblem(warning));
      await this.bridge.reload(config);
    } catch (error) {
      const problems = error instanceof ConfigError ? error.problems.map(formatProblem) : [wordsOf(error)];
      for (const problem of problems.slice(0, MAX_TOLD)) log.warn({}, problem);
      if (problems.length > MAX_TOLD) log.warn({}, `… and ${problems.length - MAX_TOLD} more mistakes`);
      log.warn({ mistakes: problems.length }, 'the map was not taken up, and the one before stays in force');
    }
    if (this.watches) this.look(this.bridge.files);
  }

  private look(files: readonly string[]): void {
    for (const file of this.watched) unwatchFile(file, this.onChange);
    this.watched = files.length === 0 ? [] : [...new Set([...files, ...this.settings.files.map(file => resolve(file))])];
    for (const file of this.watched) watchFile(file, { interval: LOOK_EVERY, persistent: false }, this.onChange);
  }

  private readonly onChange: StatsListener = (now, before) => {
    if (now.mtimeMs === before.mtimeMs && now.size === before.size && now.ino === before.ino) return;
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.request(), SETTLE);
  };
}
