import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AuditError } from '../control/audit/files.ts';
import { DecisionError, type PendingView } from '../control/pending.ts';
import type { Caller } from '../model/access.ts';
import type { WriteOutcome } from '../model/write.ts';

const PATH = '/approvals';
const MAX_WHY = 500;

/** What decides about writes that wait for a person. */
export interface Approvals {
  readonly pending: readonly PendingView[];
  decide(id: string, verdict: 'approved' | 'declined', by: string, why?: string): Promise<WriteOutcome>;
}

interface Decision {
  readonly decision?: unknown;
  readonly reason?: unknown;
}

/** `GET /approvals` lists what waits; `POST /approvals/ID` with `{ decision, reason }` decides it. For tokens of people alone. */
export function serveApprovals(app: FastifyInstance, keeper: Approvals, callerOf: (request: FastifyRequest) => Caller | undefined): void {
  /** @returns undefined where it was answered already */
  const person = async (request: FastifyRequest, reply: FastifyReply): Promise<string | undefined> => {
    const caller = callerOf(request);
    if (caller?.approves === true) return caller.name;
    await reply.code(403).send({ error: "only a person's credential, made with --approves, decides about writes" });
    return undefined;
  };
  app.get(PATH, async (request, reply) => {
    if ((await person(request, reply)) !== undefined) await reply.send({ pending: keeper.pending });
    return reply;
  });
  app.post<{ Params: { id: string }; Body: Decision | undefined }>(`${PATH}/:id`, async (request, reply) => {
    const name = await person(request, reply);
    if (name === undefined) return reply;
    const { decision, reason } = request.body ?? {};
    if (
      (decision !== 'approve' && decision !== 'decline') ||
      (reason !== undefined && (typeof reason !== 'string' || reason.length > MAX_WHY))
    )
      return reply.code(400).send({ error: 'expected { "decision": "approve" or "decline", "reason": a text, if you like }' });
    try {
      const outcome = await keeper.decide(request.params.id, decision === 'approve' ? 'approved' : 'declined', name, reason);
      return reply.send({ outcome });
    } catch (error) {
      if (error instanceof DecisionError) return reply.code(409).send({ error: error.message });
      if (error instanceof AuditError) return reply.code(503).send({ error: error.message });
      throw error;
    }
  });
}
