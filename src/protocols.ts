import type { Config } from './config/config.ts';
import { loadConfig } from './config/load.ts';
import { configSchema } from './config/schema.ts';
import { modbusProtocol } from './drivers/modbus/map.ts';
import { mqttProtocol } from './drivers/mqtt/map.ts';
import type { JsonSchema } from './model/json-schema.ts';

/**
 * Every protocol whose part of the grammar the bridge knows. Apart from the drivers themselves, so that a map can be
 * checked without loading what talks to devices and clients.
 */
const PROTOCOLS = [modbusProtocol, mqttProtocol];

/** The grammar of a map. */
export const GRAMMAR: JsonSchema = configSchema(PROTOCOLS);

/** @throws ConfigError */
export function readConfig(files: readonly string[]): Config {
  return loadConfig(files, PROTOCOLS, GRAMMAR);
}
