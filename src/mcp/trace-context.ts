/** The trace that a request belongs to, as log lines name it (W3C Trace Context; MCP 2026-07-28, `_meta`). */
export interface TraceContext {
  readonly trace_id: string;
  readonly span_id: string;
  readonly tracestate?: string;
}

const PARENT = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}$/;
/** Printable ASCII, as the recommendation bounds it. */
const STATE = /^[\x20-\x7e]{1,512}$/;

/** @returns undefined where the client names no trace, or something that is none */
export function traceContextOf(meta: Readonly<Record<string, unknown>> | undefined): TraceContext | undefined {
  const { traceparent, tracestate } = meta ?? {};
  const [, trace_id, span_id] = typeof traceparent === 'string' ? (PARENT.exec(traceparent) ?? []) : [];
  if (trace_id === undefined || span_id === undefined || /^0+$/.test(trace_id) || /^0+$/.test(span_id)) return undefined;
  return { trace_id, span_id, ...(typeof tracestate === 'string' && STATE.test(tracestate) && { tracestate }) };
}
