import { type InputRequiredResult, inputRequired, type Server, type ServerContext } from '@modelcontextprotocol/server';
import { type Confirmer, hasMoved, type Question, questionText } from '../control/confirmation.ts';
import { sampleOf } from '../model/sample.ts';
import { toJson, type Value } from '../model/value.ts';
import { Refusal } from '../model/write.ts';
import { type SealedStates, StateError } from './sealed-state.ts';

const FORM = {
  type: 'object' as const,
  properties: { confirm: { type: 'boolean' as const, title: 'Write it', description: 'It acts on the real plant' } },
  required: ['confirm'],
};
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const KEY = 'confirm';

/** The question itself, for clients of 2026-07-28: it is the result of their call, and the answer comes with the next. */
export class InputNeeded extends Error {
  readonly result: InputRequiredResult;
  constructor(result: InputRequiredResult) {
    super('the person at the client is asked');
    this.result = result;
  }
}

/** What was asked, as it comes back with the answer. */
interface Asked {
  readonly point: string;
  readonly to: unknown;
  readonly from: Value;
  readonly known: boolean;
}

type Answer = { readonly action?: unknown; readonly content?: Readonly<Record<string, unknown>> | undefined } | undefined;

/** Asks the person at a client before 2026-07-28: a request to it while its call is open. */
export function legacyConfirmer(server: Server, context: ServerContext, within: number): Confirmer {
  const elicitation = server.getClientCapabilities()?.elicitation as { form?: object; url?: object } | undefined;
  // A client that says nothing of its modes has forms (MCP 2025-11-25, elicitation).
  const canAsk = elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
  return {
    canAsk,
    isWithinCall: true,
    ask: async (question, signal) => {
      try {
        const params = { mode: 'form' as const, message: questionText(question), requestedSchema: FORM };
        return verdictOf(await context.mcpReq.elicitInput(params, { signal, timeout: within }));
      } catch (error) {
        if (signal.aborted) throw error;
        return 'expired';
      }
    },
  };
}

/** Asks the person at a client of 2026-07-28: what was asked is sealed, good for this caller, once, and for a time. */
export function modernConfirmer(context: ServerContext, states: SealedStates, caller: string): Confirmer {
  const { mcpReq } = context;
  const declared = (mcpReq.envelope as { [CAPABILITIES]?: { elicitation?: object } } | undefined)?.[CAPABILITIES];
  let sealed = mcpReq.requestState<string>();
  return {
    canAsk: declared?.elicitation !== undefined,
    isWithinCall: false,
    ask: question => {
      const state = sealed;
      sealed = undefined;
      if (state === undefined) throw askAgain(question, states, caller);
      const asked = opened(states, state, caller);
      if (asked.point !== question.point.name || JSON.stringify(asked.to) !== JSON.stringify(toJson(question.to)))
        throw new Refusal('confirm', 'the answer is to another question: this write was not what the person was asked about');
      const answer = mcpReq.inputResponses?.[KEY] as Answer;
      // What the person saw is not any more how it is, or nothing was answered.
      const seen = sampleOf(question.point, { value: asked.from, quality: asked.known ? 'good' : 'bad' } as Parameters<typeof sampleOf>[1]);
      const present = { ...question.from, value: toJson(question.from.value) };
      if (answer === undefined || hasMoved(seen, present)) throw askAgain(question, states, caller);
      return Promise.resolve(verdictOf(answer));
    },
  };
}

function askAgain(question: Question, states: SealedStates, caller: string): InputNeeded {
  const asked: Asked = {
    point: question.point.name,
    to: toJson(question.to),
    from: toJson(question.from.value) as Value,
    known: question.from.quality !== 'bad',
  };
  const elicit = inputRequired.elicit({ message: questionText(question), requestedSchema: FORM });
  return new InputNeeded(inputRequired({ inputRequests: { [KEY]: elicit }, requestState: states.seal(asked, caller) }));
}

function opened(states: SealedStates, state: string, caller: string): Asked {
  try {
    return states.open(state, caller) as Asked;
  } catch (error) {
    if (error instanceof StateError) throw new Refusal('confirm', error.message);
    throw error;
  }
}

/** Only a plain yes is one: that a form was sent back says nothing yet. */
const verdictOf = (answer: Answer): 'accepted' | 'declined' =>
  answer?.action === 'accept' && answer.content?.confirm === true ? 'accepted' : 'declined';
