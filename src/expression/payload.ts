import { Environment } from '@marcbachmann/cel-js';
import { ExpressionError, summary, withMixedNumbers } from './expression.ts';

const LIMITS = { maxAstNodes: 200, maxDepth: 30, maxListElements: 100, maxMapEntries: 100, maxCallArguments: 16 };

/** A CEL expression over a message: `payload`, parsed where it is JSON, and `topic`. */
export class PayloadExpression {
  readonly text: string;
  private readonly evaluate: (context: { payload: unknown; topic: string }) => unknown;

  private constructor(text: string, evaluate: PayloadExpression['evaluate']) {
    this.text = text;
    this.evaluate = evaluate;
  }

  /** @throws ExpressionError */
  static compile(text: string): PayloadExpression {
    const environment = withMixedNumbers(new Environment({ limits: LIMITS }));
    environment.registerVariable('payload', 'dyn').registerVariable('topic', 'string');
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
  run(payload: unknown, topic: string): unknown {
    try {
      return this.evaluate({ payload, topic });
    } catch (error) {
      throw new ExpressionError(summary(error));
    }
  }
}
