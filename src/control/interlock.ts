import { Expression, ExpressionError } from '../expression/expression.ts';
import { conjuncts } from '../expression/terms.ts';
import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import type { Sample } from '../model/sample.ts';
import { showValue } from '../model/value.ts';
import { Refusal } from '../model/write.ts';

/** A condition over live points without which nothing is written. What is not known for certain refuses. */
export class Interlock {
  readonly text: string;
  /** The points it looks at. */
  readonly points: readonly Point[];
  private readonly terms: readonly Expression[];

  private constructor(text: string, points: readonly Point[], terms: readonly Expression[]) {
    this.text = text;
    this.points = points;
    this.terms = terms;
  }

  static compile(text: string, plant: Plant): Interlock {
    const { points } = Expression.compile(text, plant, 'bool');
    return new Interlock(
      text,
      points,
      conjuncts(text).map(term => Expression.compile(term, plant)),
    );
  }

  /** @throws Refusal that names the term which does not hold, and the values that it saw */
  check(sampleOf: (point: Point) => Sample): void {
    const doubtful = this.points.map(sampleOf).filter(sample => sample.quality !== 'good');
    if (doubtful.length > 0) {
      const said = doubtful.map(
        ({ point, quality, reason }) => `${point.name} is ${quality === 'bad' ? 'not known' : 'uncertain'} (${reason})`,
      );
      throw new Refusal(
        'interlock',
        `the interlock ${this.text} can not be judged: ${said.join(', ')}; accepted when it is known and holds`,
        doubtful,
      );
    }
    for (const term of this.terms) {
      const samples = term.points.map(sampleOf);
      const live = samples.map(
        ({ point, value }) => `${point.name} = ${showValue(value)}${point.unit === undefined ? '' : ` ${point.unit}`}`,
      );
      let holds: unknown;
      try {
        holds = term.run(sampleOf).value;
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error;
        throw new Refusal('interlock', `the interlock's ${term.text} can not be judged: ${error.message}; now ${live.join(', ')}`, samples);
      }
      if (holds !== true)
        throw new Refusal('interlock', `the interlock's ${term.text} does not hold: ${live.join(', ')}; accepted when it holds`, samples);
    }
  }
}
