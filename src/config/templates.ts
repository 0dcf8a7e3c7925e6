import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { systemReason } from '../model/errors.ts';
import type { ConfigPath } from '../model/protocol.ts';
import { nearest } from '../model/text.ts';
import { merge } from './source.ts';

type Plain = { [key: string]: unknown };
type Report = (path: ConfigPath, message: string) => void;

const isPlain = (value: unknown): value is Plain => typeof value === 'object' && value !== null && !Array.isArray(value);
const ADDRESS_KEYS = ['coil', 'discrete', 'input', 'holding'] as const;

/** The maps of known devices that come with the bridge: beside the source, and beside what was built of it. */
function shippedFolder(): string {
  const candidates = ['../../config/templates', '../../../config/templates'].map(path => fileURLToPath(new URL(path, import.meta.url)));
  return candidates.find(folder => existsSync(folder)) ?? candidates[0] ?? '';
}

/**
 * Devices that `use` a template become what the template says, with what stands in the map on top of it: `use` may set
 * the unit id and the poll interval, and move all addresses by `base`.
 */
export function expandTemplates(
  root: unknown,
  folderOf: (path: ConfigPath) => string,
  report: Report,
  noteFile: (file: string) => void,
): unknown {
  if (!isPlain(root) || !isPlain(root.devices)) return root;
  const devices = Object.entries(root.devices).map(([name, device]) => {
    const use = isPlain(device) ? device.use : undefined;
    if (!isPlain(device) || !isPlain(use) || typeof use.template !== 'string') return [name, device] as const;
    const path = ['devices', name, 'use', 'template'];
    const template = readTemplate(use.template, folderOf(path), message => report(path, message), noteFile);
    if (template === undefined) return [name, { points: {}, ...device }] as const;
    const { unit_id, poll_interval, base } = use;
    const set = { ...(unit_id !== undefined && { unit_id }), ...(poll_interval !== undefined && { poll_interval }) };
    return [name, merge({ ...moved(template, Number(base ?? 0)), ...set }, device)] as const;
  });
  return { ...root, devices: Object.fromEntries(devices) };
}

function readTemplate(
  name: string,
  folder: string,
  report: (message: string) => void,
  noteFile: (file: string) => void,
): Plain | undefined {
  const shipped = shippedFolder();
  const isFile = name.endsWith('.yaml');
  const file = isFile ? resolve(folder, name) : join(shipped, `${basename(name)}.yaml`);
  noteFile(file);
  try {
    const template: unknown = parse(readFileSync(file, 'utf8'), { version: '1.2', maxAliasCount: 0 });
    if (isPlain(template) && isPlain(template.device)) return template.device;
    report(`${name} is no template: it has no \`device\``);
  } catch (error) {
    const [near] = isFile ? [] : nearest(name, templateNames(), 1);
    const hint = near === undefined ? '' : `, did you mean ${near}?`;
    report(isFile ? `the template ${name} can not be read: ${systemReason(error)}` : `there is no template ${name}${hint}`);
  }
  return undefined;
}

export function templateNames(): string[] {
  return readdirSync(shippedFolder())
    .filter(file => file.endsWith('.yaml'))
    .map(file => basename(file, '.yaml'))
    .sort();
}

function moved(device: Plain, base: number): Plain {
  if (base === 0 || !isPlain(device.points)) return device;
  const points = Object.entries(device.points).map(([id, point]) => {
    if (!isPlain(point)) return [id, point] as const;
    const addresses = ADDRESS_KEYS.flatMap(key => (typeof point[key] === 'number' ? [[key, Number(point[key]) + base] as const] : []));
    return [id, { ...point, ...Object.fromEntries(addresses) }] as const;
  });
  return { ...device, points: Object.fromEntries(points) };
}
