// Evaluation of expressions in PromQL, and conversion of the answers to traces.

import * as api from '../api';
import { parseDuration, type Window } from '../interval';
import { traces, type Result } from './query';

/** Maximum number of steps of the server. */
const MOST_STEPS = 11_000;
/** Round steps, ms. */
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800].map((s) => s * 1e3)];

export interface Expression {
  text: string;
  /** Name of the result; null to take the name of each metric. */
  name: string | null;
}

/** Returns the given step, or the shortest round step with at most `width` points, ms. */
export function stepFor(window: Window, step: string, width: number): number {
  const length = window.to - window.from;
  const given = parseDuration(step);
  if (given !== null && length / given <= MOST_STEPS) return given;
  return STEPS.find((one) => length / one <= Math.max(2, width)) ?? Math.ceil(length / width / 604_800e3) * 604_800e3;
}

/** Returns the parameters of a query. Ends are multiples of the step, so that a followed curve keeps its points. */
export function range(text: string, window: Window, step: number): api.Parameters {
  const end = (time: number): string => String((Math.ceil(time / step) * step) / 1000);
  return { query: text, start: end(window.from), end: String((Math.floor(window.to / step) * step) / 1000), step: String(step / 1000) };
}

/** Converts a series of Prometheus. */
export function converted({ metric, values }: api.PromSeries, name: string): api.Stepped {
  const { __name__: own, ...tags } = metric;
  const numbers = values.map(([, text]): api.WireNumber => (text === '+Inf' ? 'Infinity' : text === '-Inf' ? '-Infinity' : text === 'NaN' ? 'NaN' : Number(text)));
  return { measurement: '', tags, field: own ?? name, times: values.map(([s]) => Math.round(s * 1e6) / 1e3), mean: numbers, last: numbers };
}

/** Evaluates expressions over a window. */
export async function evaluate(expressions: readonly Expression[], window: Window, step: number, limit: number, signal: AbortSignal): Promise<Result> {
  const parameters = expressions.map(({ text }) => range(text, window, step));
  const answers = await Promise.all(expressions.map(async ({ text, name }, i) => {
    const found = await api.queryRange({ ...parameters[i]!, limit: limit + 1 }, signal);
    return found.map((series) => ({ ...converted(series, name ?? text), ...(name === null ? {} : { field: name }) }));
  }));
  const all = answers.flat();
  const shown = all.slice(0, limit);
  const drawn = traces(shown, []);
  const points = shown.reduce((total, series) => total + series.times.length, 0);
  const asked = { path: api.RANGE, parameters };
  return { ...drawn, asked, states: [], statesSince: null, stepNs: step * 1e6, levels: [], samples: null, points, truncated: all.length > limit, elsewhere: null };
}

/** Returns the usual distance of the samples of the first series, ms; 0 if the window has none. */
export async function spacing(select: string, fields: string, window: api.Parameters, signal: AbortSignal): Promise<number> {
  const answer = await api.stepped({ ...window, select, fields, points: 20, aggregate: 'count', limit: 1 }, signal);
  const [series] = answer.series;
  const count = (series?.count ?? []).reduce((total, one) => total + one, 0);
  if (series === undefined || count < 2) return 0;
  return (series.times[series.times.length - 1]! - series.times[0]! + (answer.step_ns ?? 0) / 1e6) / count;
}
