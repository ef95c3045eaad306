// Completion of PromQL: what is being typed at the cursor, and the names that fit.

import type { Summary } from '../api';
import { isPlain, label, metricName, quote } from './promql';

export interface Place {
  kind: 'name' | 'tag' | 'value' | 'duration';
  /** Text before the cursor that the completion replaces. */
  typed: string;
  /** Index at which that text begins. */
  from: number;
  /** Metric of the braces around the cursor, and the tag before a value. */
  metric: string;
  tag: string;
}

export interface Completion {
  label: string;
  note: string;
  /** Text to insert. */
  insert: string;
}

/** Maximum number of completions. */
const MOST_SHOWN = 100;
const DURATIONS = ['1m', '5m', '15m', '1h', '6h', '1d', '7d'];
const AGGREGATIONS = ['sum', 'avg', 'min', 'max', 'count', 'quantile', 'topk', 'bottomk', 'stddev', 'stdvar', 'group', 'count_values'];
const RANGES = ['avg', 'sum', 'count', 'min', 'max', 'first', 'last', 'quantile', 'stddev', 'stdvar', 'mad', 'present', 'absent'].map((name) => `${name}_over_time`);
const FUNCTIONS = [
  'rate', 'irate', 'increase', 'resets', 'changes', 'delta', 'idelta', 'deriv', 'predict_linear', 'double_exponential_smoothing', ...RANGES,
  'abs', 'ceil', 'floor', 'round', 'clamp', 'clamp_min', 'clamp_max', 'sgn', 'sqrt', 'exp', 'ln', 'log2', 'log10', 'timestamp', 'time', 'minute', 'hour',
  'day_of_week', 'day_of_month', 'month', 'year', 'label_replace', 'label_join', 'sort', 'sort_desc', 'absent', 'scalar', 'vector', 'histogram_quantile',
];
const WORDS = ['by', 'without', 'on', 'ignoring', 'group_left', 'group_right', 'and', 'or', 'unless', 'offset', 'bool'];
/** Words before parentheses that contain tags. */
const TAG_LISTS = /(?:^|[^\w:])(?:by|without|on|ignoring|group_left|group_right)\s*$/;

/** Returns what is typed before the cursor. */
export function place(text: string, cursor: number): Place {
  const open: { bracket: string; at: number }[] = [];
  let quoteAt = -1;
  for (let at = 0; at < cursor; at += 1) {
    const c = text[at]!;
    if (quoteAt >= 0) {
      if (c === '\\') at += 1;
      else if (c === text[quoteAt]) quoteAt = -1;
    } else if (c === '"' || c === "'") quoteAt = at;
    else if ('({['.includes(c)) open.push({ bracket: c, at });
    else if (')}]'.includes(c)) open.pop();
  }
  const inner = open[open.length - 1];
  const before = (at: number): string => text.slice(0, at);
  const metric = inner?.bracket === '{' ? (/[a-zA-Z_:][\w:]*$/.exec(before(inner.at))?.[0] ?? '') : '';
  if (quoteAt >= 0) {
    const tag = inner?.bracket === '{' ? (/([\w:]+)\s*(?:=~|!~|!=|=)\s*$/.exec(before(quoteAt))?.[1] ?? '') : '';
    return { kind: 'value', typed: text.slice(quoteAt + 1, cursor), from: quoteAt + 1, metric, tag };
  }
  const typed = /[\w:]*$/.exec(before(cursor))![0];
  const kind = inner?.bracket === '{' || (inner?.bracket === '(' && TAG_LISTS.test(before(inner.at))) ? 'tag' : inner?.bracket === '[' ? 'duration' : 'name';
  return { kind, typed, from: cursor - typed.length, metric, tag: '' };
}

/** Returns the metrics of the store with their measurements. Texts are not visible in PromQL. */
export function metrics(summaries: readonly Summary[]): Map<string, Summary> {
  const found = new Map<string, Summary>();
  for (const summary of summaries) for (const { name, type } of summary.fields) if (type !== 'string') found.set(metricName(summary.measurement, name), summary);
  return found;
}

/** Returns the names that fit a place. Values of tags are given, because the server has them. */
export function completions(at: Place, summaries: readonly Summary[], values: readonly string[] = []): Completion[] {
  const plain = (names: readonly string[], note: string, after = ''): Completion[] => names.map((name) => ({ label: name, note, insert: name + after }));
  if (at.kind === 'duration') return fitting(plain(DURATIONS, 'duration'), at.typed);
  if (at.kind === 'value') return fitting(values.map((value) => ({ label: value, note: at.tag, insert: quote(value).slice(1, -1) })), at.typed);
  const known = metrics(summaries);
  if (at.kind === 'tag') {
    const of = known.get(at.metric);
    const tags = [...new Set((of === undefined ? summaries : [of]).flatMap((summary) => summary.tags.map((tag) => tag.name)))];
    return fitting(tags.map((tag) => ({ label: tag, note: 'tag', insert: label(tag) })), at.typed);
  }
  const names = [...known].map(([name, summary]) => ({ label: name, note: summary.measurement, insert: isPlain(name) ? name : `{${quote(name)}}` }));
  return fitting([...names, ...plain(AGGREGATIONS, 'aggregation', '('), ...plain(FUNCTIONS, 'function', '('), ...plain(WORDS, 'word', ' ')], at.typed);
}

/** Returns the completions that contain the text: first those that begin with it. */
function fitting(all: readonly Completion[], typed: string): Completion[] {
  const low = typed.toLowerCase();
  const starts = all.filter((one) => one.label.toLowerCase().startsWith(low));
  const contain = all.filter((one) => !starts.includes(one) && one.label.toLowerCase().includes(low));
  return [...starts, ...contain].slice(0, MOST_SHOWN);
}
