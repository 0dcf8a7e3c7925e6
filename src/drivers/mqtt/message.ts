const UTF8 = new TextDecoder('utf-8', { fatal: true });

/** One message as it came. What is made of its payload is made once, however many points look at it. */
export class Message {
  readonly topic: string;
  readonly payload: Buffer;
  /** The broker kept it: it was published nobody knows when (MQTT 5.0, 3.3.1.3). */
  readonly retained: boolean;
  /** It may have waited at the broker while the bridge was away. */
  readonly delayed: boolean;
  /** Larger than what is looked at: nothing of it was kept. */
  readonly oversize: boolean;
  readonly correlation: Buffer | undefined;
  private parsed: { readonly value: unknown } | undefined;
  private decoded: { readonly text: string | undefined } | undefined;

  constructor(
    topic: string,
    payload: Buffer,
    more: { readonly retained?: boolean; readonly delayed?: boolean; readonly oversize?: boolean; readonly correlation?: Buffer } = {},
  ) {
    this.topic = topic;
    this.payload = payload;
    this.retained = more.retained === true;
    this.delayed = more.delayed === true;
    this.oversize = more.oversize === true;
    this.correlation = more.correlation;
  }

  /** undefined where the payload is no UTF-8. */
  get text(): string | undefined {
    this.decoded ??= { text: textOf(this.payload) };
    return this.decoded.text;
  }

  /** JSON where the payload parses as such, else its text; undefined where it is no UTF-8. */
  get content(): unknown {
    this.parsed ??= { value: this.text === undefined ? undefined : parseJson(this.text) };
    return this.parsed.value;
  }
}

function textOf(payload: Buffer): string | undefined {
  try {
    return UTF8.decode(payload);
  } catch {
    return undefined;
  }
}

/** Text that stands for a whole number which JSON.parse would round; no JSON text can hold this character bare. */
const WIDE = '\u0000';

/** JSON with whole numbers beyond 2^53 kept exact, as bigint. What is no JSON stays text. */
function parseJson(text: string): unknown {
  try {
    if (!/\d{16}/.test(text)) return JSON.parse(text) as unknown;
    const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,40}(?![\d.eE])/g, (match, at: number) =>
      match.startsWith('"') || /[\d.eE+-]/.test(text[at - 1] ?? '') ? match : `"\\u0000${match}"`,
    );
    return JSON.parse(marked, (_, value: unknown) =>
      typeof value === 'string' && value.startsWith(WIDE) && /^-?\d+$/.test(value.slice(1)) ? BigInt(value.slice(1)) : value,
    );
  } catch {
    // Also where it is nested more deeply than the stack is high.
    return text;
  }
}
