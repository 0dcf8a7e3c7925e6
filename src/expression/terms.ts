/** What a condition demands all at once: its parts between the outermost `&&`, in the words of the condition. */
export function conjuncts(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let quote: string | undefined;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? '';
    if (quote !== undefined) {
      if (char === '\\') i++;
      else if (char === quote) quote = undefined;
    } else if (char === '"' || char === "'") quote = char;
    else if ('([{'.includes(char)) depth++;
    else if (')]}'.includes(char)) depth--;
    // Another operator of lower rank at the top joins what the && would part.
    else if (depth === 0 && (text.startsWith('||', i) || char === '?')) return [text.trim()];
    else if (depth === 0 && text.startsWith('&&', i)) {
      parts.push(text.slice(start, i));
      start = i + 2;
      i++;
    }
  }
  return [...parts, text.slice(start)].map(part => part.trim());
}
