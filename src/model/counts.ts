/** How often each of some kinds of things happened, since the start: what it is told by a few short labels. */
export class Counts {
  private readonly byKey = new Map<string, { readonly labels: readonly string[]; count: number }>();

  add(labels: readonly string[], times = 1): void {
    const key = JSON.stringify(labels);
    const known = this.byKey.get(key);
    if (known === undefined) this.byKey.set(key, { labels, count: times });
    else known.count += times;
  }

  entries(): Iterable<{ readonly labels: readonly string[]; readonly count: number }> {
    return this.byKey.values();
  }
}
