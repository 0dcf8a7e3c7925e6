import { Environment } from '@marcbachmann/cel-js';
import { ExpressionError, summary, withMixedNumbers } from './expression.ts';

const LIMITS = { maxAstNodes: 200, maxDepth: 30, maxListElements: 100, maxMapEntries: 100, maxCallArguments: 16 };

/** What expressions over messages may name: the message's `payload` and `topic`, or the `value` that is to be sent. */
const VARIABLES = { message: { payload: 'dyn', topic: 'string' }, value: { value: 'dyn' } } as const;

/** A CEL expression over a message: `payload`, parsed where it is JSON, and `topic`. Or over the `value` of a command. */
export class PayloadExpression {
  readonly text: string;
  private readonly evaluate: (context: Record<string, unknown>) => unknown;

  private constructor(text: string, evaluate: PayloadExpression['evaluate']) {
    this.text = text;
    this.evaluate = evaluate;
  }

  /** @throws ExpressionError */
  static compile(text: string, over: keyof typeof VARIABLES = 'message'): PayloadExpression {
    const environment = withMixedNumbers(new Environment({ limits: LIMITS, homogeneousAggregateLiterals: false }));
    for (const [name, type] of Object.entries(VARIABLES[over])) environment.registerVariable(name, type);
    try {
      const parsed = environment.parse(text);
      const { valid, error } = parsed.check();
      if (!valid) throw error;
      return new PayloadExpression(text, parsed);
    } catch (error) {
      throw new ExpressionError(summary(error));
    }
  }

  /** @throws ExpressionError where this message has no such value */
  run(context: Readonly<Record<string, unknown>>): unknown {
    try {
      return this.evaluate(context);
    } catch (error) {
      throw new ExpressionError(summary(error));
    }
  }
}
