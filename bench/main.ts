import { broker } from './broker.ts';
import { calls } from './calls.ts';
import { catalogue } from './catalogue.ts';
import { flood } from './flood.ts';
import { line } from './line.ts';
import { planning } from './planning.ts';
import { polling } from './polling.ts';
import { sessions } from './sessions.ts';
import { steady } from './steady.ts';

/** `npm run bench [-- NAME …]`: measures, each beside a floor in the same run, and prints ratios. */
const BENCHES: Readonly<Record<string, () => Promise<void>>> = {
  planning,
  polling,
  line,
  steady,
  broker,
  flood,
  calls,
  sessions,
  catalogue,
};

const names = process.argv.slice(2);
for (const name of names.length > 0 ? names : Object.keys(BENCHES)) {
  const bench = BENCHES[name];
  if (bench === undefined) {
    process.stderr.write(`there is no bench ${name}; there are ${Object.keys(BENCHES).join(', ')}\n`);
    process.exit(2);
  }
  process.stdout.write(`\n## ${name}\n`);
  await bench();
}
process.exit(0);
