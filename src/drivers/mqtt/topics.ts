/** Whether a topic falls under a filter (MQTT 5.0, 4.7): + is any level, # all that follow. */
function matchesFilter(filter: string, topic: string): boolean {
  const [wanted, levels] = [filter.split('/'), topic.split('/')];
  // Topics of the broker itself are not meant by wildcards in the first place.
  if (topic.startsWith('$') && !filter.startsWith('$')) return false;
  for (const [i, level] of wanted.entries()) {
    if (level === '#') return true;
    if (i >= levels.length || (level !== '+' && level !== levels[i])) return false;
  }
  return wanted.length === levels.length;
}

/** MQTT 5.0, 4.7.1: wildcards are whole levels. */
export function isFilter(topic: string): boolean {
  const levels = topic.split('/');
  return levels.every((level, i) => level === '+' || (level === '#' && i === levels.length - 1) || !/[+#]/.test(level));
}

/** Whether everything that `narrow` lets through, `wide` lets through as well. */
function covers(wide: string, narrow: string): boolean {
  const [a, b] = [wide.split('/'), narrow.split('/')];
  if (narrow.startsWith('$') && !wide.startsWith('$')) return false;
  for (const [i, level] of a.entries()) {
    if (level === '#') return true;
    if (i >= b.length || b[i] === '#' || (level !== '+' && level !== b[i])) return false;
  }
  return a.length === b.length;
}

/** Topics whose hearers are remembered, at most: a stranger may invent any number of them under a wildcard. */
const MAX_REMEMBERED = 10_000;

/** Who wants the messages of a topic. */
export class TopicIndex<T> {
  private readonly plain = new Map<string, T[]>();
  private readonly filters = new Map<string, T[]>();
  private remembered = new Map<string, readonly T[]>();

  add(filter: string, item: T): void {
    const map = /[+#]/.test(filter) ? this.filters : this.plain;
    const items = map.get(filter);
    if (items === undefined) map.set(filter, [item]);
    else items.push(item);
    this.remembered.clear();
  }

  /**
   * The filters to subscribe to. One that another covers is left out: a broker may send a message once for each
   * subscription that it fits, and each would be handled.
   */
  get all(): string[] {
    const wide = [...this.filters.keys()];
    const isCovered = (filter: string): boolean => wide.some(other => other !== filter && covers(other, filter));
    return [...this.plain.keys(), ...wide].filter(filter => !isCovered(filter));
  }

  /** The filters that a refused one stood for. */
  coveredBy(filter: string): string[] {
    return [...this.plain.keys(), ...this.filters.keys()].filter(other => other !== filter && covers(filter, other));
  }

  find(topic: string): readonly T[] {
    if (this.filters.size === 0) return this.plain.get(topic) ?? [];
    const known = this.remembered.get(topic);
    if (known !== undefined) return known;
    const matching = [...this.filters].flatMap(([filter, items]) => (matchesFilter(filter, topic) ? items : []));
    const found = [...(this.plain.get(topic) ?? []), ...matching];
    if (this.remembered.size >= MAX_REMEMBERED) this.remembered = new Map();
    this.remembered.set(topic, found);
    return found;
  }
}
