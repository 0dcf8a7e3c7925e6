import { Exception, type TableName, type Unit } from './modbus-server.ts';

/** The modes of the boiler's controller. */
const MODE = { off: 0, auto: 1, manual: 2 } as const;

const WATER = 4.186; // kJ/(kg·K)
const VESSEL_KG = 300;
const TANK_KG = 800;
const LOOP_KG = 150;
const BURNER_KW = 60;
const GAS_KWH_PER_M3 = 10.5;
const CIRCULATION_KG_S = 1.1;
const FEED_L_S = 0.8;
const LEAK_L_S = 0.02;
const MAKE_UP_C = 11;
const LOSS_KW_PER_K = 0.05;
const LOOP_KW_PER_K = 0.85;
const BURNER_DIFFERENTIAL = 3;
const OVERHEAT_C = 95;
const LOW_WATER_PERCENT = 15;

/** The state of the boiler house in physical units. */
export interface BoilerState {
  /** Seconds since it was built. */
  time: number;
  mode: number;
  setpoint: number;
  pumpSpeed: number;
  pumpOn: boolean;
  feedValve: boolean;
  gasValve: boolean;
  alarmReset: boolean;
  burnerOn: boolean;
  modulation: number;
  flameFault: boolean;
  overheat: boolean;
  flow: number;
  back: number;
  tank: number;
  flue: number;
  level: number;
  outdoor: number;
  gasM3: number;
  heatWh: number;
  burnerHours: number;
  starts: number;
}

/**
 * A small boiler house: a gas boiler that heats a tank, a pump that circulates the tank's water through a heating loop,
 * and a feed valve that makes up for what the loop loses. Energy is conserved, so that temperatures follow what is
 * written as slowly, or as quickly, as water does.
 */
export class BoilerHouse {
  readonly state: BoilerState = {
    time: 0,
    mode: MODE.auto,
    setpoint: 65,
    pumpSpeed: 70,
    pumpOn: true,
    feedValve: false,
    gasValve: true,
    alarmReset: false,
    burnerOn: false,
    modulation: 0,
    flameFault: false,
    overheat: false,
    flow: 61,
    back: 52,
    tank: 58,
    flue: 80,
    level: 72,
    outdoor: 6,
    gasM3: 18_234.6,
    heatWh: 184_233_000,
    burnerHours: 9_876.4,
    starts: 12_043,
  };

  /** Lets time pass, in steps small enough for the stiffest of the heat flows. */
  advance(seconds: number): void {
    for (let left = seconds; left > 0; left -= 0.5) this.step(Math.min(0.5, left));
  }

  /** Bar; the static pressure of the system and the expansion of its water. */
  get pressure(): number {
    const { state } = this;
    return Math.max(0, 0.6 + state.level * 0.012 + (state.tank - 20) * 0.006 + (state.pumpOn ? state.pumpSpeed * 0.002 : 0));
  }

  get flowRate(): number {
    const { state } = this;
    return state.pumpOn && state.level > 5 ? (CIRCULATION_KG_S * state.pumpSpeed) / 100 : 0;
  }

  get heatPower(): number {
    return this.flowRate * WATER * (this.state.flow - this.state.back);
  }

  get alarms(): number {
    const { state } = this;
    return (
      (state.overheat ? 1 : 0) | (state.level < LOW_WATER_PERCENT ? 2 : 0) | (this.pressure < 0.8 ? 4 : 0) | (state.flameFault ? 128 : 0)
    );
  }

  private step(dt: number): void {
    const { state } = this;
    state.time += dt;
    this.control();
    const heat = state.burnerOn ? BURNER_KW * (state.modulation / 100) : 0;
    const flow = this.flowRate;

    // The burner heats the boiler's own water, which gives its heat to the tank.
    const toTank = 4 * (state.flow - state.tank);
    state.flow += ((heat * 0.93 - toTank) * dt) / (VESSEL_KG * WATER);
    // The pump carries the tank's heat into the loop, whose radiators follow the weather.
    const toLoop = flow * WATER * (state.tank - state.back);
    const intoRooms = LOOP_KW_PER_K * Math.max(0, state.back - 20) * (1 + Math.max(0, 15 - state.outdoor) / 40);
    state.tank += ((toTank - toLoop - LOSS_KW_PER_K * (state.tank - 18)) * dt) / (TANK_KG * WATER);
    state.back += ((toLoop - intoRooms) * dt) / (LOOP_KG * WATER);
    this.water(dt);

    state.outdoor = 6 + 5 * Math.sin((2 * Math.PI * (state.time - 32_400)) / 86_400);
    const flueTarget = state.burnerOn ? state.flow + 25 + state.modulation * 0.4 : state.flow - 5;
    state.flue += ((flueTarget - state.flue) * dt) / 20;
    state.gasM3 += (heat * dt) / 3600 / GAS_KWH_PER_M3;
    state.heatWh += (Math.max(0, this.heatPower) * dt * 1000) / 3600;
    if (state.burnerOn) state.burnerHours += dt / 3600;
  }

  /** Feed water comes in cold; the loop loses a little all the time. */
  private water(dt: number): void {
    const { state } = this;
    const liters = TANK_KG / 100;
    const fed = state.feedValve && state.level < 100 ? FEED_L_S * dt : 0;
    const content = Math.max(1, state.level * liters);
    state.tank = (state.tank * content + MAKE_UP_C * fed) / (content + fed);
    state.level = Math.min(100, Math.max(0, state.level + (fed - LEAK_L_S * dt) / liters));
  }

  /** The boiler's own controller: two-point with modulation, and the safety chain in front of it. */
  private control(): void {
    const { state } = this;
    if (state.alarmReset) {
      state.overheat = state.flow > OVERHEAT_C - 10;
      state.flameFault = false;
      state.alarmReset = false;
    }
    if (state.flow > OVERHEAT_C) state.overheat = true;
    const safe = state.gasValve && !state.overheat && !state.flameFault && state.level >= LOW_WATER_PERCENT;
    const target = state.setpoint;
    const wanted =
      state.mode === MODE.manual
        ? state.flow < OVERHEAT_C - 5
        : state.mode === MODE.auto &&
          (state.burnerOn ? state.flow < target + BURNER_DIFFERENTIAL : state.flow < target - BURNER_DIFFERENTIAL);
    const on = safe && wanted;
    if (on && !state.burnerOn) state.starts++;
    state.burnerOn = on;
    state.modulation = on
      ? Math.min(100, Math.max(30, state.mode === MODE.manual ? 60 : (target + BURNER_DIFFERENTIAL - state.flow) * 12))
      : 0;
  }
}

const int16 = (value: number): number => Math.round(value) & 0xffff;
const words32 = (value: number): [number, number] => [Math.floor(value / 65536) & 0xffff, value & 0xffff];
const words64 = (value: number): [number, number, number, number] => {
  const whole = BigInt(Math.round(value));
  return [48n, 32n, 16n, 0n].map(shift => Number((whole >> shift) & 0xffffn)) as [number, number, number, number];
};
function wordsOfFloat(value: number): [number, number] {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatBE(value);
  return [bytes.readUInt16BE(0), bytes.readUInt16BE(2)];
}
const wordsOfText = (text: string, words: number): number[] => {
  const bytes = Buffer.alloc(words * 2);
  bytes.write(text, 'latin1');
  return Array.from({ length: words }, (_, i) => bytes.readUInt16BE(i * 2));
};

interface Setting {
  readonly min: number;
  readonly max: number;
  get(): number;
  set(value: number): void;
}

/** The boiler house's PLC as a Modbus unit: the register list that config/boiler-house.yaml maps. */
export class BoilerHousePlc implements Unit {
  readonly plant: BoilerHouse;
  private readonly settings: ReadonlyMap<number, Setting>;
  private readonly coils: ReadonlyMap<number, { get(): boolean; set(on: boolean): void }>;

  constructor(plant: BoilerHouse) {
    this.plant = plant;
    const { state } = plant;
    this.settings = new Map<number, Setting>([
      [
        70,
        {
          min: 200,
          max: 900,
          get: () => int16(state.setpoint * 10),
          set: value => {
            state.setpoint = value / 10;
          },
        },
      ],
      [
        71,
        {
          min: 0,
          max: 2,
          get: () => state.mode,
          set: value => {
            state.mode = value;
          },
        },
      ],
      [
        72,
        {
          min: 0,
          max: 100,
          get: () => Math.round(state.pumpSpeed),
          set: value => {
            state.pumpSpeed = value;
          },
        },
      ],
    ]);
    this.coils = new Map([
      [
        5,
        {
          get: () => state.feedValve,
          set: on => {
            state.feedValve = on;
          },
        },
      ],
      [
        6,
        {
          get: () => state.pumpOn,
          set: on => {
            state.pumpOn = on;
          },
        },
      ],
      [
        7,
        {
          get: () => state.gasValve,
          set: on => {
            state.gasValve = on;
          },
        },
      ],
      [
        8,
        {
          get: () => state.alarmReset,
          set: on => {
            state.alarmReset = on;
          },
        },
      ],
    ]);
  }

  read(table: TableName, address: number): number | undefined {
    switch (table) {
      case 'coil': {
        const coil = this.coils.get(address);
        return coil === undefined ? undefined : Number(coil.get());
      }
      case 'discrete':
        return this.contacts()[address];
      case 'input':
        return this.inputs()[address];
      case 'holding':
        return this.settings.get(address)?.get() ?? this.holdings()[address];
    }
  }

  write(table: 'coil' | 'holding', address: number, value: number): undefined | Exception {
    if (table === 'coil') {
      const coil = this.coils.get(address);
      if (coil === undefined) return new Exception(2);
      coil.set(value === 1);
      return undefined;
    }
    const setting = this.settings.get(address);
    if (setting === undefined) return new Exception(2);
    if (value < setting.min || value > setting.max) return new Exception(3);
    setting.set(value);
    return undefined;
  }

  private contacts(): Readonly<Record<number, number>> {
    const { state } = this.plant;
    return { 0: Number(state.burnerOn), 1: Number(this.plant.flowRate > 0.05), 2: Number(state.level < LOW_WATER_PERCENT), 3: 0, 4: 1 };
  }

  private inputs(): Readonly<Record<number, number>> {
    const { state } = this.plant;
    const heat = this.plant.heatPower;
    const run = Math.round(state.burnerHours * 10);
    return list(0, [
      int16(state.flow * 10),
      int16(state.back * 10),
      int16(state.tank * 10),
      int16(state.outdoor * 10),
      int16(state.flue * 10),
      int16(state.level * 10),
      ...wordsOfFloat(this.plant.pressure).reverse(), // 6, 7: the low word first, as this maker does it
      ...wordsOfFloat(this.plant.flowRate * 3.6), // 8, 9
      int16(heat * 10), // 10
      0xffff, // 11: scale factor of 10, -1
      ...words64(state.heatWh), // 12..15
      ...words32(run), // 16, 17
      ...words32(state.starts), // 18, 19
      ...words32(Math.round(state.gasM3 * 100)), // 20, 21
      int16(state.modulation), // 22
      0x7fff, // 23: a probe that is not fitted
    ]);
  }

  private holdings(): Readonly<Record<number, number>> {
    const { state } = this.plant;
    const seconds = 1_767_225_600 + Math.floor(state.time);
    const status = (state.burnerOn ? 1 : 0) | (state.pumpOn ? 2 : 0) | (state.feedValve ? 4 : 0) | 8;
    return {
      ...list(60, [state.mode, this.plant.alarms, status]),
      ...list(100, wordsOfText('BH-2 boiler PLC', 8)),
      ...list(110, [0x0204, ...words32(seconds)]),
    };
  }
}

function list(start: number, words: readonly number[]): Record<number, number> {
  return Object.fromEntries(words.map((word, i) => [start + i, word]));
}

/** Runs a plant in real time, or faster; the timer alone lets time pass, so that a fake one does too. */
export class PlantClock {
  private readonly plant: BoilerHouse;
  private readonly speed: number;
  private timer: NodeJS.Timeout | undefined;

  constructor(plant: BoilerHouse, speed = 1) {
    this.plant = plant;
    this.speed = speed;
  }

  start(): void {
    this.timer = setInterval(() => this.plant.advance(0.1 * this.speed), 100);
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
