export const isGlob = (name: string): boolean => /[*?]/.test(name);

/**
 * `boiler.*`, `*temperature?` against whole names, in time that grows with the length of both, whatever the glob: on a
 * mismatch only the last star takes one character more.
 */
export function globMatcher(glob: string): (name: string) => boolean {
  const pattern = glob.toLowerCase();
  return name => {
    const text = name.toLowerCase();
    let [at, p, star, mark] = [0, 0, -1, 0];
    while (at < text.length) {
      if (p < pattern.length && (pattern[p] === '?' || pattern[p] === text[at]) && pattern[p] !== '*') {
        at++;
        p++;
      } else if (pattern[p] === '*') {
        star = p++;
        mark = at;
      } else if (star >= 0) {
        p = star + 1;
        at = ++mark;
      } else return false;
    }
    while (pattern[p] === '*') p++;
    return p === pattern.length;
  };
}
