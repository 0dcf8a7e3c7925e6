import type { Driver } from '../drivers/driver.ts';
import { TransportError } from '../model/errors.ts';
import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import type { Sample } from '../model/sample.ts';
import type { LiveValues } from '../store/live-values.ts';

/** Longest wait of a reader who comes before the first poll is over. */
const FIRST_POLL_WITHIN = 3000;

/** The plant as it is out there: which driver has which device, what is known of each point, and how to ask anew. */
export class Field {
  readonly live: LiveValues;
  private now: { readonly plant: Plant; readonly drivers: ReadonlyMap<string, Driver> };

  /** @param drivers by connection */
  constructor(plant: Plant, live: LiveValues, drivers: ReadonlyMap<string, Driver>) {
    this.now = { plant, drivers };
    this.live = live;
  }

  /** Another map, of which much may be as it was. */
  become(plant: Plant, drivers: ReadonlyMap<string, Driver>): void {
    this.now = { plant, drivers };
    this.live.become(plant);
  }

  get plant(): Plant {
    return this.now.plant;
  }

  driverOf(point: Point): Driver {
    const connection = this.plant.devices.get(point.device)?.connection ?? '';
    const driver = this.now.drivers.get(connection);
    if (driver === undefined) throw new Error(`no driver for ${point.name}`);
    return driver;
  }

  /** Asks the devices now. Their answers, also that there was none, become the newest samples. */
  async readNow(points: readonly Point[], signal: AbortSignal): Promise<Sample[]> {
    const byDriver = new Map<Driver, Point[]>();
    for (const point of points) {
      const driver = this.driverOf(point);
      byDriver.set(driver, [...(byDriver.get(driver) ?? []), point]);
    }
    await Promise.all([...byDriver].map(async ([driver, members]) => this.live.update(await driver.read(members, signal))));
    if (signal.aborted) throw new TransportError('cancelled', 'the reading was cancelled');
    return points.map(point => this.live.get(point));
  }

  /** Waits, a short while, until each point has been read or was found not to be readable for a first time. */
  async firstPoll(points: readonly Point[], signal: AbortSignal): Promise<void> {
    const isNew = (): boolean => points.some(point => this.live.get(point).reason === 'initialising');
    // Of what has been silent for longer than that, nothing is to be expected in a moment.
    const since = Math.max(...points.map(point => this.live.get(point)).map(({ reason, at }) => (reason === 'initialising' ? at : 0)), 0);
    const within = since + FIRST_POLL_WITHIN - performance.now();
    if (!isNew() || within <= 0) return;
    await new Promise<void>(resolve => {
      const done = (): void => {
        clearTimeout(timer);
        stopWatching();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, within);
      const stopWatching = this.live.onSample(() => {
        if (!isNew()) done();
      });
      signal.addEventListener('abort', done, { once: true });
    });
  }

  get allDrivers(): Iterable<Driver> {
    return this.now.drivers.values();
  }
}
