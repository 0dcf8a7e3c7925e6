import { type ASTNode, Environment } from '@marcbachmann/cel-js';
import type { Plant } from '../model/plant.ts';
import type { Point } from '../model/point.ts';
import type { Quality, Sample } from '../model/sample.ts';
import { nearest } from '../model/text.ts';
import type { Value } from '../model/value.ts';

/** Bounds on what an expression may ask of the evaluator. */
const LIMITS = { maxAstNodes: 500, maxDepth: 40, maxListElements: 100, maxMapEntries: 100, maxCallArguments: 16 };
const MAX_LENGTH = 2000;

/** CEL knows no arithmetic between 2 and 2.5, and does not compare 2.0 with 2; an engineer does. */
export function withMixedNumbers(environment: Environment): Environment {
  const operators: readonly (readonly [string, (a: number, b: number) => number])[] = [
    ['+', (a, b) => a + b],
    ['-', (a, b) => a - b],
    ['*', (a, b) => a * b],
    ['/', (a, b) => a / b],
  ];
  for (const [sign, compute] of operators) {
    const handler = (a: number | bigint, b: number | bigint): number => compute(Number(a), Number(b));
    environment.registerOperator(`double ${sign} int: double`, handler);
    environment.registerOperator(`int ${sign} double: double`, handler);
  }
  // With it come the other way round, and `!=`.
  environment.registerOperator('double == int: bool', (a: number | bigint, b: number | bigint) => Number(a) === Number(b));
  return environment;
}

export class ExpressionError extends Error {}

/** What an expression says of the plant now. Inputs that are not good leave it without an answer. */
export type Verdict =
  | { readonly value: unknown; readonly quality: Quality }
  | { readonly value: undefined; readonly quality: 'bad'; readonly because: Sample };

/** A CEL expression over the points of a plant, compiled once. */
export class Expression {
  readonly text: string;
  /** The points it reads. */
  readonly points: readonly Point[];
  private readonly evaluate: (context: Record<string, unknown>) => unknown;

  private constructor(text: string, points: readonly Point[], evaluate: (context: Record<string, unknown>) => unknown) {
    this.text = text;
    this.points = points;
    this.evaluate = evaluate;
  }

  /** @throws ExpressionError in words, with the place in the expression */
  static compile(text: string, plant: Plant, wanted: 'bool' | 'any' = 'any'): Expression {
    if (text.length > MAX_LENGTH) throw new ExpressionError(`the expression is longer than ${MAX_LENGTH} characters`);
    const environment = withMixedNumbers(new Environment({ unlistedVariablesAreDyn: true, limits: LIMITS }));
    let parsed: ReturnType<Environment['parse']>;
    try {
      parsed = environment.parse(text);
    } catch (error) {
      throw new ExpressionError(summary(error));
    }
    checkCost(parsed.ast);
    const points = [...references(parsed.ast)].map(name => {
      const point = plant.points.get(name);
      if (point !== undefined) return point;
      const near = nearest(name, plant.points.keys(), 1);
      throw new ExpressionError(
        `there is no point ${name}${near.length > 0 ? `, did you mean ${near[0]}?` : ''}; write points as device.point`,
      );
    });
    if (wanted === 'bool') checkIsCondition(text, points);
    return new Expression(text, points, context => parsed(context));
  }

  /** @throws ExpressionError where the expression can not be evaluated at all, such as text compared with a number */
  run(sampleOf: (point: Point) => Sample): Verdict {
    const context: Record<string, Record<string, unknown>> = {};
    let quality: Quality = 'good';
    for (const point of this.points) {
      const sample = sampleOf(point);
      if (sample.quality === 'bad') return { value: undefined, quality: 'bad', because: sample };
      if (sample.quality === 'uncertain') quality = 'uncertain';
      context[point.device] = { ...context[point.device], [point.id]: celValue(point, sample.value) };
    }
    try {
      return { value: this.evaluate(context), quality };
    } catch (error) {
      throw new ExpressionError(summary(error));
    }
  }
}

/** Numbers are doubles in CEL, also whole ones; an enum's code without a label is its number as text. */
function celValue(point: Point, value: Value): unknown {
  if (point.value.kind === 'enum') return String(value);
  if (point.value.kind === 'number') return Number(value);
  return value;
}

const CEL_TYPES: Readonly<Record<Point['value']['kind'], string>> = {
  bool: 'bool',
  number: 'double',
  enum: 'string',
  flags: 'list<string>',
  text: 'string',
  bytes: 'string',
  time: 'string',
};

/** Types the expression against its points, so that a comparison that can never work is refused at once. */
function checkIsCondition(text: string, points: readonly Point[]): void {
  const environment = withMixedNumbers(new Environment({ unlistedVariablesAreDyn: true, limits: LIMITS }));
  const devices = new Map<string, Record<string, string>>();
  for (const point of points) devices.set(point.device, { ...devices.get(point.device), [point.id]: CEL_TYPES[point.value.kind] });
  for (const [name, schema] of devices) environment.registerVariable({ name, schema });
  const result = environment.parse(text).check();
  if (!result.valid) throw new ExpressionError(summary(result.error));
  if (result.type !== 'bool' && result.type !== 'dyn')
    throw new ExpressionError(`a condition is true or false; this expression is of type ${result.type}`);
}

function isIdentifier(node: unknown): node is { readonly op: 'id'; readonly args: string } {
  return typeof node === 'object' && node !== null && (node as { op?: unknown }).op === 'id';
}

/** A call on something, such as list.exists(x, …). @returns the variable of its own that its first argument names, if it does */
function callOf({ args }: ASTNode): { readonly name: string; readonly parts: readonly ASTNode[]; readonly variable: string | undefined } {
  const [name, receiver, rest] = args as unknown as [string, ASTNode, ASTNode[]];
  const [first] = rest;
  return { name, parts: [receiver, ...rest], variable: rest.length > 1 && isIdentifier(first) ? first.args : undefined };
}

const isNode = (value: unknown): value is ASTNode => typeof value === 'object' && value !== null && 'op' in value;

/** `device.point` for every such access in the expression. */
function references(node: ASTNode): Set<string> {
  const found = new Set<string>();
  const bound = new Set<string>();
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) walk(item);
    if (!isNode(value)) return;
    const { op, args } = value;
    const [object, name] = Array.isArray(args) ? (args as readonly unknown[]) : [];
    if (op === '.' && isIdentifier(object) && !bound.has(object.args)) {
      found.add(`${object.args}.${String(name)}`);
      return;
    }
    const variable = op === 'rcall' ? callOf(value).variable : undefined;
    if (variable !== undefined) bound.add(variable);
    walk(args);
  };
  walk(node);
  return found;
}

/**
 * What an expression takes to evaluate stays in bounds that its length sets. Functions that go through a list, or name a part, multiply
 * where one stands inside another, and double what they make where one goes on with it; a pattern may go back on itself for longer than
 * anybody waits.
 *
 * @throws ExpressionError
 */
function checkCost(ast: ASTNode): void {
  const walk = (value: unknown, outer: string | undefined): void => {
    if (Array.isArray(value)) for (const item of value) walk(item, outer);
    if (!isNode(value)) return;
    if (value.op !== 'rcall') {
      walk(value.args, outer);
      return;
    }
    const { name, parts, variable } = callOf(value);
    if (name === 'matches') throw new ExpressionError('matches() is not available here; use startsWith(), endsWith() or contains()');
    if (variable !== undefined && outer !== undefined)
      throw new ExpressionError(
        `${name}() can not stand inside another function that goes through a list or names a part, here ${outer}()`,
      );
    walk(parts, variable === undefined ? outer : name);
  };
  walk(ast, undefined);
}

/** The evaluator's own words without its drawing of the place. */
export function summary(error: unknown): string {
  const text = error instanceof Error ? ((error as Error & { summary?: string }).summary ?? error.message) : String(error);
  return text.split('\n')[0] ?? text;
}
