import { ExceptionResponse, ProtocolError, RefusedByDevice, TransportError } from '../model/errors.ts';
import { present as presentSample } from '../model/sample.ts';
import { Refusal, type WriteOutcome } from '../model/write.ts';
import { AuditError } from './audit/files.ts';

/** How a write ended, as far as it is not about the request itself. */
export type Ending = Pick<WriteOutcome, 'status'> & Partial<Pick<WriteOutcome, 'after' | 'rule' | 'reason' | 'live' | 'wire'>>;

export function refused(refusal: Refusal): Ending {
  return {
    status: 'refused',
    rule: refusal.rule,
    reason: refusal.message,
    ...(refusal.live.length > 0 && { live: refusal.live.map(sample => presentSample(sample)) }),
  };
}

/** What a failure before the request was sent means for the asker. Throws what is none of them. */
export function endingOf(error: unknown): Ending {
  if (error instanceof Refusal) return refused(error);
  if (error instanceof AuditError)
    return { status: 'refused', rule: 'audit', reason: `${error.message}; nothing is written that can not be recorded` };
  if (error instanceof ExceptionResponse || error instanceof RefusedByDevice) return { status: 'failed', reason: error.message };
  if (error instanceof TransportError && error.kind === 'cancelled')
    return { status: 'failed', reason: 'cancelled before anything was sent' };
  if (error instanceof TransportError || error instanceof ProtocolError)
    return { status: 'failed', reason: `nothing was sent: ${error.message}` };
  throw error;
}
