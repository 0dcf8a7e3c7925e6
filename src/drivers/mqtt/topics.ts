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

/** Who wants the messages of a topic: found at once for plain topics, one after the other for filters. */
export class TopicIndex<T> {
  private readonly plain = new Map<string, T[]>();
  private readonly filters = new Map<string, T[]>();

  add(filter: string, item: T): void {
    const map = /[+#]/.test(filter) ? this.filters : this.plain;
    const items = map.get(filter);
    if (items === undefined) map.set(filter, [item]);
    else items.push(item);
  }

  /** Every filter once, for subscribing. */
  get all(): string[] {
    return [...this.plain.keys(), ...this.filters.keys()];
  }

  find(topic: string): T[] {
    const matching = [...this.filters].flatMap(([filter, items]) => (matchesFilter(filter, topic) ? items : []));
    return [...(this.plain.get(topic) ?? []), ...matching];
  }
}
