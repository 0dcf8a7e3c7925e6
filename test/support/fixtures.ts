import {
  type CallToolResult,
  type GetPromptResult,
  type InputRequest,
  type InputRequiredResult,
  inputRequired,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  type Tool,
} from '@modelcontextprotocol/server';
import { completionOf } from '../../src/mcp/completion.ts';
import { pageOf } from '../../src/mcp/page.ts';
import { SealedStates, StateError } from '../../src/mcp/sealed-state.ts';
import type { Call, Served } from '../../src/mcp/served.ts';
import { ArgumentError, complaint } from '../../src/mcp/tool.ts';
import type { JsonSchema } from '../../src/model/json-schema.ts';

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
/** A red pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
/** No samples at all, with a header. */
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=';
const JSON_MIME = 'application/json';

type Answer = CallToolResult | InputRequiredResult;
type Fixture = (args: Readonly<Record<string, unknown>>, call: Call) => Answer | Promise<Answer>;

const text = (value: string): CallToolResult => ({ content: [{ type: 'text', text: value }] });
const image = { type: 'image', data: PNG, mimeType: 'image/png' } as const;
const embedded = (uri: string, mimeType: string, value: string) =>
  ({ type: 'resource', resource: { uri, mimeType, text: value } }) as const;
const pause = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 50));
const form = (properties: object, required: readonly string[] = Object.keys(properties)) =>
  ({ type: 'object', properties, required }) as never;

const contextOf = ({ context }: Call): NonNullable<Call['context']> => {
  if (context === undefined) throw new Error('a fixture is called by a client only');
  return context;
};
const capabilitiesOf = (call: Call): Readonly<Record<string, unknown>> =>
  (contextOf(call).mcpReq.envelope as { [CAPABILITIES]?: Readonly<Record<string, unknown>> } | undefined)?.[CAPABILITIES] ?? {};
const responseOf = (call: Call, key: string): Readonly<Record<string, unknown>> | undefined =>
  contextOf(call).mcpReq.inputResponses?.[key] as Readonly<Record<string, unknown>> | undefined;

const ask = {
  name: inputRequired.elicit({ message: 'What is your name?', requestedSchema: form({ name: { type: 'string' } }) }),
  confirm: inputRequired.elicit({ message: 'Please confirm', requestedSchema: form({ ok: { type: 'boolean' } }) }),
  color: inputRequired.elicit({ message: 'Step 2: What is your favorite color?', requestedSchema: form({ color: { type: 'string' } }) }),
  sampling: (question: string, maxTokens: number): InputRequest =>
    inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: question } }], maxTokens }),
  roots: inputRequired.listRoots(),
};

async function elicited(call: Call, properties: object, message: string, required?: readonly string[]): Promise<CallToolResult> {
  const { action, content } = await contextOf(call).mcpReq.elicitInput({
    mode: 'form',
    message,
    requestedSchema: form(properties, required),
  });
  return text(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
}

const options = (type: 'oneOf' | 'anyOf', prefix: string, titles: readonly string[]): object => ({
  [type]: titles.map((title, i) => ({ const: `${prefix}${i + 1}`, title })),
});
const titled = ['First Option', 'Second Option', 'Third Option'];

/** What the conformance tool wants to find, served by the bridge's own code in place of a plant. */
export class FixtureCatalogue implements Served {
  readonly identity = { name: 'fixtures', version: '0' };
  readonly instructions = 'Fixtures of the conformance tool';
  private readonly states = new SealedStates(60_000);
  private readonly fixtures: Readonly<Record<string, Fixture>>;
  private readonly schemas: Readonly<Record<string, JsonSchema>> = {
    test_sampling: { type: 'object', properties: { prompt: { type: 'string' } }, required: ['prompt'] },
    test_elicitation: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
    test_headers: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } }, required: ['region'] },
    json_schema_2020_12_tool: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: {
        address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } },
      },
      properties: {
        name: { type: 'string' },
        address: { $ref: '#/$defs/address' },
        contactMethod: { type: 'string', enum: ['phone', 'email'] },
        phone: { type: 'string' },
        email: { type: 'string' },
      },
      allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
      if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
      // biome-ignore lint/suspicious/noThenProperty: JSON Schema's own keyword
      then: { required: ['phone'] },
      else: { required: ['email'] },
      additionalProperties: false,
    },
  };

  /** @param changeTools tells clients that there are other tools */
  constructor(changeTools: () => void) {
    const sealedRound: Fixture = (_args, call) => {
      const state = this.stateOf(call);
      if (state === undefined)
        return inputRequired({ inputRequests: { confirm: ask.confirm }, requestState: this.seal(call, { round: 1 }) });
      return text('state-ok');
    };
    this.fixtures = {
      test_simple_text: () => text('This is a simple text response for testing.'),
      test_image_content: () => ({ content: [image] }),
      test_audio_content: () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] }),
      test_embedded_resource: () => ({
        content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
      }),
      test_multiple_content_types: () => ({
        content: [
          { type: 'text', text: 'Multiple content types test:' },
          image,
          embedded('test://mixed-content-resource', JSON_MIME, '{"test":"data","value":123}'),
        ],
      }),
      test_tool_with_logging: async (_args, call) => {
        for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
          await contextOf(call).mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
          await pause();
        }
        return text('Logged');
      },
      test_tool_with_progress: async (_args, call) => {
        const { mcpReq } = contextOf(call);
        for (const progress of [0, 50, 100]) {
          if (mcpReq._meta?.progressToken !== undefined)
            await mcpReq.notify({
              method: 'notifications/progress',
              params: { progressToken: mcpReq._meta.progressToken, progress, total: 100 },
            });
          await pause();
        }
        return text('Done');
      },
      test_error_handling: () => complaint('This tool intentionally returns an error for testing'),
      test_sampling: async ({ prompt }, call) => {
        const { content } = await contextOf(call).mcpReq.requestSampling({
          messages: [{ role: 'user', content: { type: 'text', text: String(prompt) } }],
          maxTokens: 100,
        });
        return text(`LLM response: ${JSON.stringify(content)}`);
      },
      test_elicitation: ({ message }, call) =>
        elicited(
          call,
          {
            username: { type: 'string', description: "User's response" },
            email: { type: 'string', description: "User's email address" },
          },
          String(message),
        ),
      test_elicitation_sep1034_defaults: (_args, call) =>
        elicited(
          call,
          {
            name: { type: 'string', default: 'John Doe' },
            age: { type: 'integer', default: 30 },
            score: { type: 'number', default: 95.5 },
            status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
            verified: { type: 'boolean', default: true },
          },
          'Defaults',
          [],
        ),
      test_elicitation_sep1330_enums: (_args, call) =>
        elicited(
          call,
          {
            untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
            titledSingle: { type: 'string', ...options('oneOf', 'value', titled) },
            legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
            untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
            titledMulti: { type: 'array', items: options('anyOf', 'value', ['First Choice', 'Second Choice', 'Third Choice']) },
          },
          'Enums',
          [],
        ),
      test_reconnection: async (_args, call) => {
        contextOf(call).http?.closeSSE?.();
        await pause();
        return text('Reconnected');
      },
      json_schema_2020_12_tool: () => text('Valid'),
      test_headers: ({ region }) => text(String(region)),
      test_missing_capability: (_args, call) => {
        if (capabilitiesOf(call).sampling === undefined)
          throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
        return text('Capable');
      },
      test_streaming_elicitation: (_args, call) =>
        responseOf(call, 'name') === undefined ? inputRequired({ inputRequests: { name: ask.name } }) : text('Elicited'),
      test_logging_tool: () => text('Logged to the log of the bridge alone'),
      test_trigger_tool_change: () => {
        changeTools();
        return text('Changed');
      },
      test_input_required_result_elicitation: (_args, call) => {
        const content = responseOf(call, 'user_name')?.content as { name?: unknown } | undefined;
        return typeof content?.name === 'string'
          ? text(`Hello, ${content.name}!`)
          : inputRequired({ inputRequests: { user_name: ask.name } });
      },
      test_input_required_result_sampling: (_args, call) => {
        const response = responseOf(call, 'capital_question');
        return response === undefined
          ? inputRequired({ inputRequests: { capital_question: ask.sampling('What is the capital of France?', 100) } })
          : text(JSON.stringify(response.content));
      },
      test_input_required_result_list_roots: (_args, call) => {
        const response = responseOf(call, 'client_roots');
        return response === undefined
          ? inputRequired({ inputRequests: { client_roots: ask.roots } })
          : text(JSON.stringify(response.roots));
      },
      test_input_required_result_request_state: sealedRound,
      test_input_required_result_tampered_state: sealedRound,
      test_input_required_result_multiple_inputs: (_args, call) =>
        this.stateOf(call) === undefined
          ? inputRequired({
              inputRequests: { user_name: ask.name, greeting: ask.sampling('Generate a greeting', 50), client_roots: ask.roots },
              requestState: this.seal(call, { round: 1 }),
            })
          : text('All three'),
      test_input_required_result_multi_round: (_args, call) => {
        const round = (this.stateOf(call) as { round?: number } | undefined)?.round ?? 0;
        if (round === 2) return text('Both steps');
        return inputRequired({
          inputRequests: round === 0 ? { step1: ask.name } : { step2: ask.color },
          requestState: this.seal(call, { round: round + 1 }),
        });
      },
      test_input_required_result_capabilities: (_args, call) => {
        const can = capabilitiesOf(call);
        return inputRequired({
          inputRequests: {
            ...(can.elicitation !== undefined && { user_name: ask.name }),
            ...(can.sampling !== undefined && { greeting: ask.sampling('Generate a greeting', 50) }),
          },
        });
      },
    };
  }

  tools(_principal: unknown, cursor: string | undefined) {
    const tools = Object.keys(this.fixtures).map(
      name => ({ name, description: `The fixture ${name}`, inputSchema: this.inputSchemaOf(name) ?? {} }) as unknown as Tool,
    );
    return pageOf(tools, 100, cursor);
  }

  inputSchemaOf(name: string): JsonSchema | undefined {
    return Object.hasOwn(this.fixtures, name) ? (this.schemas[name] ?? { type: 'object' }) : undefined;
  }

  async call(name: string, args: unknown, call: Call): Promise<Answer | undefined> {
    try {
      return await this.fixtures[name]?.((args ?? {}) as Readonly<Record<string, unknown>>, call);
    } catch (error) {
      if (error instanceof StateError) throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
      throw error;
    }
  }

  resources(cursor: string | undefined) {
    const resources = [
      { uri: 'test://static-text', name: 'static text', mimeType: 'text/plain' },
      { uri: 'test://static-binary', name: 'static binary', mimeType: 'image/png' },
      { uri: 'test://watched-resource', name: 'watched', mimeType: 'text/plain' },
    ];
    return pageOf(resources, 100, cursor);
  }

  resourceTemplates(cursor: string | undefined) {
    return pageOf([{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: JSON_MIME }], 100, cursor);
  }

  hasResource(uri: string): boolean {
    return this.contentOf(uri) !== undefined;
  }

  readResource(uri: string) {
    const content = this.contentOf(uri);
    return Promise.resolve(content && { result: { contents: [content] }, ttlMs: 1000 });
  }

  prompts(cursor: string | undefined) {
    const argument = (name: string) => ({ name, required: true });
    const prompts = [
      { name: 'test_simple_prompt' },
      { name: 'test_prompt_with_arguments', arguments: [argument('arg1'), argument('arg2')] },
      { name: 'test_prompt_with_embedded_resource', arguments: [argument('resourceUri')] },
      { name: 'test_prompt_with_image' },
      { name: 'test_input_required_result_prompt' },
    ];
    return pageOf(prompts, 100, cursor);
  }

  getPrompt(name: string, args: Readonly<Record<string, string>>, call: Call): Promise<GetPromptResult | InputRequiredResult | undefined> {
    const said = (...contents: GetPromptResult['messages'][number]['content'][]): GetPromptResult => ({
      messages: contents.map(content => ({ role: 'user', content })),
    });
    const words = (value: string) => ({ type: 'text', text: value }) as const;
    const answers: Readonly<Record<string, () => GetPromptResult | InputRequiredResult>> = {
      test_simple_prompt: () => said(words('This is a simple prompt for testing.')),
      test_prompt_with_arguments: () => {
        if (args.arg1 === undefined || args.arg2 === undefined) throw new ArgumentError('arg1 or arg2 is missing');
        return said(words(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`));
      },
      test_prompt_with_embedded_resource: () =>
        said(
          embedded(args.resourceUri ?? '', 'text/plain', 'Embedded resource content for testing.'),
          words('Please process the embedded resource above.'),
        ),
      test_prompt_with_image: () => said(image, words('Please analyze the image above.')),
      test_input_required_result_prompt: () => {
        const asked = inputRequired.elicit({
          message: 'What context should the prompt use?',
          requestedSchema: form({ context: { type: 'string' } }),
        });
        const response = responseOf(call, 'user_context');
        return response === undefined
          ? inputRequired({ inputRequests: { user_context: asked } })
          : said(words(`Use ${JSON.stringify(response.content)}`));
      },
    };
    return Promise.resolve(answers[name]?.());
  }

  complete({ argument }: { readonly argument: { readonly value: string } }) {
    return completionOf(['paris', 'park', 'party'], argument.value);
  }

  private contentOf(uri: string): ReadResourceResult['contents'][number] | undefined {
    const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
    if (id !== undefined) return { uri, mimeType: JSON_MIME, text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
    if (uri === 'test://static-text') return { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' };
    if (uri === 'test://static-binary') return { uri, mimeType: 'image/png', blob: PNG };
    return uri === 'test://watched-resource' ? { uri, mimeType: 'text/plain', text: 'Watched' } : undefined;
  }

  private seal(call: Call, value: object): string {
    return this.states.seal(value, call.principal.name);
  }

  private stateOf(call: Call): unknown {
    const sealed = contextOf(call).mcpReq.requestState<string>();
    return sealed === undefined ? undefined : this.states.open(sealed, call.principal.name);
  }
}
