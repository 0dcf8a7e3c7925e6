// What a desktop client starts from the bundle: a bridge of its own where a map was chosen, else the one that runs.

/** A setting that was left empty comes as nothing, or as the name of its place. */
const setting = name => {
  const value = process.env[name] ?? '';
  return value === '' || value.startsWith('${') ? undefined : value;
};

const token = setting('FIELDBRIDGE_TOKEN');
if (token === undefined) delete process.env.FIELDBRIDGE_TOKEN;
const map = setting('FIELDBRIDGE_MAP');
const args = map === undefined ? ['--attach', setting('FIELDBRIDGE_URL') ?? 'http://127.0.0.1:8502/mcp'] : [map];
process.argv.splice(2, Infinity, 'stdio', ...args);
await import('./dist/src/main.js');
