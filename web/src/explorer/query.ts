// Queries of the explorer, and conversion of the answers.

import * as api from '../api';
import { nanoseconds, parseDuration, type Window } from '../interval';
import { labels, type Labels } from '../labels';
import { align, breakAtSilence, drawable, newestSince, stretches, type Column, type Stretch, type Value } from '../samples';
import type { Table } from './sql';

/** Maximum number of text samples fetched per series. More states than this are not readable in a chart. */
export const MOST_STATES = 5000;
/** Maximum number of points per series. The step is increased to meet this limit. */
export const MOST_POINTS = 20_000;
/** Maximum number of series with shades between min and max. More shades would hide each other. */
export const MOST_BANDS = 8;

export interface Question {
  select: string;
  fields: api.Field[];
  window: Window;
  /** `auto`, or a step as text. */
  step: string;
  /** Number of points for which the chart has space. */
  width: number;
  limit: number;
}

/** A drawn series: its name, its columns, and figures over the whole interval. */
export interface Trace {
  key: api.SeriesKey;
  label: string;
  values: Value[];
  low?: Value[];
  high?: Value[];
  /** Values that cannot be drawn (NaN and infinities), by index. */
  odd: Map<number, number>;
  /** Figures over the interval. `last` is the latest sample, not the mean of a bucket. */
  summary: { min: number | bigint; max: number | bigint; mean: number; samples: number; last: number | bigint | null };
}

export interface States {
  key: api.SeriesKey;
  label: string;
  stretches: Stretch[];
  samples: number;
}

export interface Result {
  times: number[];
  traces: Trace[];
  states: States[];
  labels: Labels;
  /** Start of the shown states, if it is later than the start of the window. */
  statesSince: number | null;
  stepNs: number | null;
  /** Intervals in which roll-up rows replace samples. */
  levels: api.Level[];
  /** Number of samples; null for the values of an expression. */
  samples: number | null;
  points: number;
  truncated: boolean;
  /** Path and parameters of the queries, for commands and links. */
  asked: { path: string; parameters: api.Parameters[] };
  /** Window that contains samples, if the requested window has none. */
  elsewhere: Window | null;
  /** Rows of a statement in SQL. */
  table?: Table;
}

const isText = (field: api.Field): boolean => field.type === 'string';

function common(question: Question, fields: readonly api.Field[]): api.Parameters {
  const { window } = question;
  return {
    select: question.select,
    fields: fields.map((field) => field.name).join(','),
    from: nanoseconds(window.from),
    to: nanoseconds(window.to),
    limit: question.limit,
  };
}

/** Returns the fields that the parameter `fields` can list: those without commas, at which the server splits it. */
export function listable(fields: readonly api.Field[]): api.Field[] {
  return fields.filter((field) => !field.name.includes(','));
}

/** Returns the parameters of the numeric query. */
export function numeric(question: Question): api.Parameters {
  const { from, to } = question.window;
  const step = parseDuration(question.step);
  // If a step would give more points than a chart can use, the server chooses the step.
  const fits = step !== null && (to - from) / step <= MOST_POINTS;
  const resolution = fits ? { step: question.step } : { points: Math.max(2, Math.floor(question.width)) };
  return {
    ...common(question, question.fields.filter((field) => !isText(field))),
    ...resolution,
    aggregate: 'mean,min,max,count,last',
  };
}

/** Returns links that download the same query: the points as shown, or every sample. */
export function exports(question: Question): { name: string; href: string; title: string; file: string }[] {
  const numbers = question.fields.some((field) => !isText(field));
  const shown = numbers ? numeric(question) : common(question, question.fields);
  const all = common(question, question.fields);
  return [
    ...(['csv', 'json', 'arrow'] as const).map((form) => ({
      name: form === 'arrow' ? 'Arrow' : form.toUpperCase(),
      href: api.address('/api/v1/query', { ...shown, format: form }),
      title: 'The points as shown',
      file: `points.${form}`,
    })),
    { name: 'all samples', href: api.address('/api/v1/query', { ...all, format: 'csv' }), title: 'Every sample of the interval as CSV', file: 'samples.csv' },
  ];
}

/** Requests all data to show. */
export async function ask(question: Question, signal: AbortSignal): Promise<Result> {
  const numbers = question.fields.filter((field) => !isText(field));
  const texts = question.fields.filter(isText);
  const [stepped, text] = await Promise.all([
    numbers.length > 0 ? api.stepped(numeric(question), signal) : null,
    texts.length > 0 ? askStates(question, texts, signal) : null,
  ]);
  const drawn = traces(stepped?.series ?? [], question.fields, stepped?.levels ?? []);
  const samples = sum(drawn.traces.map((trace) => trace.summary.samples)) + sum((text?.states ?? []).map((one) => one.samples));
  return {
    ...drawn,
    states: text?.states ?? [],
    statesSince: text?.since ?? null,
    stepNs: stepped?.step_ns ?? null,
    levels: stepped?.levels ?? [],
    samples,
    asked: { path: '/api/v1/query', parameters: [numbers.length > 0 ? numeric(question) : common(question, question.fields)] },
    points: sum((stepped?.series ?? []).map((series) => series.times.length)),
    truncated: (stepped?.truncated ?? false) || (text?.truncated ?? false),
    elsewhere: samples === 0 ? covering([stepped?.range, text?.range]) : null,
  };
}

/** Returns the window that covers all given ranges. */
function covering(ranges: readonly api.Answer<unknown>['range'][]): Window | null {
  const known = ranges.filter((range) => range !== undefined);
  if (known.length === 0) return null;
  const ms = (ns: string): number => Number(BigInt(ns) / 1_000_000n);
  return { from: Math.min(...known.map((range) => ms(range.from))), to: Math.max(...known.map((range) => ms(range.to) + 1)) };
}

/** Converts stepped series to drawable traces. */
export function traces(series: readonly api.Stepped[], fields: readonly api.Field[], levels: readonly api.Level[] = []): { times: number[]; traces: Trace[]; labels: Labels } {
  const bands = series.length <= MOST_BANDS;
  const named = labels(series);
  const columns: Column[] = series.map((one) => {
    const mean = one.times.map((_, i) => api.number(one.mean?.[i]));
    const edges = bands && one.min !== undefined && one.max !== undefined ? [one.min, one.max] : [];
    // Gaps between the rows of a level do not mean that the sensor was silent.
    const coarsest = Math.max(0, ...levels.map((level) => level.step_ns / 1e6));
    return breakAtSilence({ times: one.times, values: [mean, ...edges.map((edge) => edge.map((value) => api.number(value)))] }, coarsest);
  });
  const aligned = align(columns);
  let at = 0;
  const types = new Map(fields.map((field) => [field.name, field.type]));
  const made = series.map((one, i): Trace => {
    const own = aligned.values.slice(at, at + columns[i]!.values.length);
    at += columns[i]!.values.length;
    const odd = new Map<number, number>();
    own[0]!.forEach((value, place) => {
      if (typeof value === 'number' && !Number.isFinite(value)) odd.set(place, value);
    });
    const [values, low, high] = own.map((column) => column.map((value) => (value === undefined ? undefined : drawable(value))));
    const key: api.SeriesKey = { measurement: one.measurement, tags: one.tags, field: one.field, type: types.get(one.field) ?? 'f64' };
    return { key, label: named.each[i]!, values: values!, ...(low && high ? { low, high } : {}), odd, summary: summarise(one) };
  });
  return { times: aligned.times, traces: made, labels: named };
}

function summarise(series: api.Stepped): Trace['summary'] {
  let [total, samples] = [0, 0];
  let min: number | bigint = Infinity;
  let max: number | bigint = -Infinity;
  const last = api.exact(series.last?.[series.times.length - 1]);
  series.times.forEach((_, i) => {
    const mean = api.number(series.mean?.[i]);
    const count = series.count?.[i] ?? 1;
    samples += count;
    if (mean === null || !Number.isFinite(mean)) return;
    total += mean * count;
    const low = api.exact(series.min?.[i]) ?? mean;
    const high = api.exact(series.max?.[i]) ?? mean;
    if (low < min) min = low;
    if (high > max) max = high;
  });
  return { min, max, mean: samples > 0 ? total / samples : NaN, samples, last };
}

/** Requests text samples, which cannot be averaged: first counts, then a readable number of the newest samples. */
async function askStates(
  question: Question,
  texts: readonly api.Field[],
  signal: AbortSignal,
): Promise<{ states: States[]; since: number | null; truncated: boolean; range: api.Answer<unknown>['range'] }> {
  const asked = common(question, texts);
  const counts = await api.stepped({ ...asked, points: 500, aggregate: 'count' }, signal);
  const since = Math.max(...counts.series.map((series) => newestSince(series.times, series.count ?? [], MOST_STATES) ?? -Infinity));
  const from = Number.isFinite(since) ? nanoseconds(since) : asked['from'];
  const answer = await api.raw({ ...asked, from }, signal);
  const named = labels(answer.series);
  const end = Math.min(question.window.to, Date.now());
  const states = answer.series.map((series, i) => ({
    key: { measurement: series.measurement, tags: series.tags, field: series.field, type: series.type },
    label: named.each[i]!,
    stretches: stretches(series.times, series.values.map(String), end),
    samples: series.times.length,
  }));
  return { states, since: Number.isFinite(since) ? since : null, truncated: counts.truncated || answer.truncated, range: counts.range };
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

const PREFERRED = ['usage', 'value', 'usage_percent', 'used_percent', 'load1', 'celsius', 'temperature'];

/** Returns the default field: a well-known field, otherwise the first number, otherwise the first field. */
export function firstFields(fields: readonly api.Field[]): string[] {
  const known = PREFERRED.find((name) => fields.some((field) => field.name === name));
  const choice = known ?? fields.find((field) => !isText(field))?.name ?? fields[0]?.name;
  return choice === undefined ? [] : [choice];
}
