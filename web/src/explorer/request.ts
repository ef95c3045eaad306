// The data of a state of the explorer: samples, the values of an expression, or the rows of a statement in SQL.

import * as api from '../api';
import { nanoseconds, type Interval, type Window } from '../interval';
import type { ExplorerState } from '../location';
import { format as write } from '../selector';
import { evaluate, spacing, stepFor } from './evaluate';
import { askEvents, type Events } from './events';
import { describe, expression, isCombined } from './promql';
import { ask, firstFields, type Question, type Result } from './query';
import { askSql } from './sql';

export interface Answer {
  question: Question;
  result: Result;
  /** Expressions that the server evaluated. */
  expressions: string[];
  /** Events over the same window; null if the state has none. */
  events: Events | null;
  /** Duration, ms. */
  took: number;
}

/** Returns the fields that a state shows: its own, or the default of the measurement. */
export function shownFields(state: ExplorerState, fields: readonly api.Field[]): string[] {
  return state.fields.length > 0 ? state.fields : firstFields(fields);
}

/** Returns true if the state has a text of a query in place of a selector. */
export const isWritten = (state: ExplorerState): boolean => state.promql !== null || state.sql !== null;

/** Requests the data of a state over a window. `fields` are all fields of its selector. */
export async function request(state: ExplorerState, fields: readonly api.Field[], window: Window, width: number, signal: AbortSignal): Promise<Answer> {
  const shown = isWritten(state) ? [] : shownFields(state, fields);
  const chosen = fields.filter((field) => shown.includes(field.name));
  const question: Question = { select: write(state.selector), fields: chosen, window, step: state.step, width, limit: state.limit };
  const started = performance.now();
  const [{ result, expressions }, events] = await Promise.all([data(state, question, signal), state.events === null ? null : askEvents(state.events, window, signal)]);
  return { question, result, expressions, events, took: performance.now() - started };
}

async function data(state: ExplorerState, question: Question, signal: AbortSignal): Promise<{ result: Result; expressions: string[] }> {
  const { window } = question;
  const step = stepFor(window, state.step, question.width);
  if (state.sql !== null) return { result: await askSql(state.sql, window, state.limit, signal), expressions: [] };
  if (state.promql !== null) return { result: await evaluate([{ text: state.promql, name: null }], window, step, state.limit, signal), expressions: [] };
  if (!isCombined(state.combination)) return { result: await ask(question, signal), expressions: [] };
  return combined(state, question, step, signal);
}

/** Evaluates an aggregation or a rate of the chosen fields. */
async function combined(state: ExplorerState, question: Question, step: number, signal: AbortSignal): Promise<{ result: Result; expressions: string[] }> {
  const { window, select } = question;
  const numbers = question.fields.filter((field) => field.type !== 'string');
  const ends = { from: nanoseconds(window.from), to: nanoseconds(window.to) };
  const expressions = await Promise.all(numbers.map(async ({ name }) => {
    const distances = { step, spacing: await spacing(select, name, ends, signal) };
    return { text: expression(state.selector, name, state.combination, distances), name: describe(name, state.combination) };
  }));
  const result = await evaluate(expressions, window, step, state.limit, signal);
  const texts = expressions.map((one) => one.text);
  if (result.points > 0) return { result, expressions: texts };
  // The store states where samples are.
  return { result: { ...result, elsewhere: (await ask(question, signal)).elsewhere }, expressions: texts };
}

/** Returns the names of the series on the second axis. */
export function rightFields({ right, combination, promql, sql, split }: ExplorerState): string[] {
  if (promql !== null || sql !== null || split) return [];
  return right.map((field) => (isCombined(combination) ? describe(field, combination) : field));
}

/** Returns a state over another interval. */
export const over = (state: ExplorerState, interval: Interval): ExplorerState => ({ ...state, interval, follow: false });
