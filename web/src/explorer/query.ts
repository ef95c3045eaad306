// What the explorer asks the server, and what it makes of the answer.

import * as api from '../api';
import { nanoseconds, parseDuration, type Window } from '../interval';
import { labels, type Labels } from '../labels';
import { align, breakAtSilence, drawable, newestSince, stretches, type Column, type Stretch, type Value } from '../samples';

/** The most text samples that are fetched a series: more states than this cannot be read anyway. */
export const MOST_STATES = 5000;
/** The most points a series; the step gives way. */
export const MOST_POINTS = 20_000;
/** With more series than this the shades between min and max would hide each other. */
export const MOST_BANDS = 8;

export interface Question {
  select: string;
  fields: api.Field[];
  window: Window;
  /** `auto`, or a step as text. */
  step: string;
  /** How many points fit. */
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
  /** What is not drawable, by place: NaN and infinities. */
  odd: Map<number, number>;
  /** `last` is the latest sample, which no mean of a bucket is. */
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
  /** Since when states are shown, when not since the beginning of the window. */
  statesSince: number | null;
  stepNs: number | null;
  /** Where there is less than samples. */
  levels: api.Level[];
  samples: number;
  points: number;
  truncated: boolean;
  /** Where there are samples, if the window has none. */
  elsewhere: Window | null;
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

/** Names with a comma cannot be listed in `fields`: the server takes it apart there. */
export function listable(fields: readonly api.Field[]): api.Field[] {
  return fields.filter((field) => !field.name.includes(','));
}

/** The parameters of the numeric query. */
export function numeric(question: Question): api.Parameters {
  const { from, to } = question.window;
  const step = parseDuration(question.step);
  // A step that would give more points than a chart can use is left to the server.
  const fits = step !== null && (to - from) / step <= MOST_POINTS;
  const resolution = fits ? { step: question.step } : { points: Math.max(2, Math.floor(question.width)) };
  return {
    ...common(question, question.fields.filter((field) => !isText(field))),
    ...resolution,
    aggregate: 'mean,min,max,count,last',
  };
}

/** The same query to take away: points as shown, or every sample. */
export function exports(question: Question): { name: string; href: string; title: string }[] {
  const numbers = question.fields.some((field) => !isText(field));
  const shown = numbers ? numeric(question) : common(question, question.fields);
  const all = common(question, question.fields);
  return [
    ...(['csv', 'json', 'arrow'] as const).map((form) => ({
      name: form === 'arrow' ? 'Arrow' : form.toUpperCase(),
      href: api.address('/api/v1/query', { ...shown, format: form }),
      title: 'The points as shown',
    })),
    { name: 'all samples', href: api.address('/api/v1/query', { ...all, format: 'csv' }), title: 'Every sample of the interval as CSV' },
  ];
}

/** Asks for everything that is to be shown. */
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
    points: sum((stepped?.series ?? []).map((series) => series.times.length)),
    truncated: (stepped?.truncated ?? false) || (text?.truncated ?? false),
    elsewhere: samples === 0 ? covering([stepped?.range, text?.range]) : null,
  };
}

/** The window that covers all of some ranges. */
function covering(ranges: readonly api.Answer<unknown>['range'][]): Window | null {
  const known = ranges.filter((range) => range !== undefined);
  if (known.length === 0) return null;
  const ms = (ns: string): number => Number(BigInt(ns) / 1_000_000n);
  return { from: Math.min(...known.map((range) => ms(range.from))), to: Math.max(...known.map((range) => ms(range.to) + 1)) };
}

/** Makes drawable traces of stepped series. */
export function traces(series: readonly api.Stepped[], fields: readonly api.Field[], levels: readonly api.Level[] = []): { times: number[]; traces: Trace[]; labels: Labels } {
  const bands = series.length <= MOST_BANDS;
  const named = labels(series);
  const columns: Column[] = series.map((one) => {
    const mean = one.times.map((_, i) => api.number(one.mean?.[i]));
    const edges = bands && one.min !== undefined && one.max !== undefined ? [one.min, one.max] : [];
    // A sensor is not silent between the rows of a level.
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

/** Text samples cannot be averaged: counts are asked for first, and then as many of the newest as can be read. */
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

/** The field to begin with when none is chosen: a well-known one, else the first number, else the first. */
export function firstFields(fields: readonly api.Field[]): string[] {
  const known = PREFERRED.find((name) => fields.some((field) => field.name === name));
  const choice = known ?? fields.find((field) => !isText(field))?.name ?? fields[0]?.name;
  return choice === undefined ? [] : [choice];
}
