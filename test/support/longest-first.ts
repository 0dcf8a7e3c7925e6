import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** They fetch and start programs, or wait for real time. The others are sorted by how they did before, or by their size. */
const LONGEST = ['integration/mcp-clients', 'conformance/conformance', 'packaging/bundle', 'integration/outage', 'e2e/clients'];

/** Begins with the files that take longest, so that no worker is left with one at the end while the others have nothing to do. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = LONGEST.findIndex(name => moduleId.endsWith(`/test/${name}.test.ts`));
      return found < 0 ? LONGEST.length : found;
    };
    return sorted.sort((one, other) => rank(one) - rank(other));
  }
}
