import type {
  CallToolResult,
  CompleteRequestParams,
  CompleteResult,
  GetPromptResult,
  Implementation,
  InputRequiredResult,
  Prompt,
  ReadResourceResult,
  Resource,
  ResourceTemplateType,
  ServerContext,
  Tool,
} from '@modelcontextprotocol/server';
import type { Confirmer } from '../control/confirmation.ts';
import type { JsonSchema } from '../model/json-schema.ts';
import type { Principal } from '../model/write.ts';
import type { TraceContext } from './trace-context.ts';

/** One call as a tool sees it. */
export interface Call {
  readonly principal: Principal;
  readonly signal: AbortSignal;
  /** The trace that the client says the call belongs to. */
  readonly trace?: TraceContext;
  /** How the person at the client can be asked. */
  readonly confirmer?: Confirmer;
  /** The way back to the client while the call is open. */
  readonly context?: ServerContext;
}

/** One page of a list. */
export interface Page<T> {
  readonly items: T[];
  readonly nextCursor?: string;
}

/** What can be served to clients of any revision: each list is one page at a time, undefined for a cursor that is none. */
export interface Served {
  readonly identity: Implementation;
  readonly instructions: string;
  tools(principal: Principal, cursor: string | undefined): Page<Tool> | undefined;
  /** The arguments of a tool that this principal may use. */
  inputSchemaOf(name: string, principal: Principal): JsonSchema | undefined;
  /** @returns undefined where there is no such tool; what is wrong with a call is its answer */
  call(name: string, args: unknown, call: Call): Promise<CallToolResult | InputRequiredResult | undefined>;
  resources(cursor: string | undefined): Page<Resource> | undefined;
  resourceTemplates(cursor: string | undefined): Page<ResourceTemplateType> | undefined;
  hasResource(uri: string): boolean;
  /** @returns undefined where there is no such resource; the milliseconds that the answer stays true beside it */
  readResource(uri: string, signal: AbortSignal): Promise<{ readonly result: ReadResourceResult; readonly ttlMs: number } | undefined>;
  prompts(cursor: string | undefined): Page<Prompt> | undefined;
  /**
   * @returns undefined where there is no such prompt
   * @throws ArgumentError that says what would be accepted
   */
  getPrompt(name: string, args: Readonly<Record<string, string>>, call: Call): Promise<GetPromptResult | InputRequiredResult | undefined>;
  /** @returns undefined where there is nothing to complete by this reference */
  complete(params: CompleteRequestParams): CompleteResult | undefined;
}
