// Expressions in PromQL for what the controls select. The server evaluates them, over all series.

import { formatDuration } from '../interval';
import type { Filter, Selector } from '../selector';

/** Aggregation across series: the name in an address, the name for people, and the PromQL. */
export const AGGREGATES = [
  { name: 'sum', title: 'sum', promql: 'sum' },
  { name: 'mean', title: 'mean', promql: 'avg' },
  { name: 'min', title: 'min', promql: 'min' },
  { name: 'max', title: 'max', promql: 'max' },
  { name: 'count', title: 'count', promql: 'count' },
  { name: 'p50', title: 'median', promql: 'quantile', share: 0.5 },
  { name: 'p95', title: '95th percentile', promql: 'quantile', share: 0.95 },
  { name: 'p99', title: '99th percentile', promql: 'quantile', share: 0.99 },
] as const;

export type AggregateName = (typeof AGGREGATES)[number]['name'];

/** Combination of the selected series. */
export interface Combination {
  /** Aggregation across series; null leaves each series as it is. */
  aggregate: AggregateName | null;
  /** Tags whose values have a curve each. */
  by: readonly string[];
  /** True for the increase of a counter per second. */
  rate: boolean;
}

/** Distances of an expression, ms. */
export interface Distances {
  /** Distance of the points of the chart. */
  step: number;
  /** Usual distance of the samples of a series; 0 if it is unknown. */
  spacing: number;
}

/** Age up to which PromQL takes the latest sample, ms. */
const LOOKBACK = 300e3;
const METRIC = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

export const quote = (text: string): string => `"${text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n').replace(/\t/g, '\\t')}"`;
const literal = (text: string): string => text.replace(/[\\.+*?()|[\]{}^$]/g, '\\$&');

/** Returns the name of a tag, in quotes if necessary. */
export const label = (tag: string): string => (LABEL.test(tag) ? tag : quote(tag));

/** Returns the name of the metric of a field. */
export function metricName(measurement: string, field: string): string {
  return field === 'value' ? measurement : `${measurement}_${field}`;
}

/** Returns true if a metric needs no quotes. */
export const isPlain = (name: string): boolean => METRIC.test(name);

function condition({ tag, operator, values }: Filter): string {
  const name = label(tag);
  if (operator === '^=') return `${name}=~${quote(`${literal(values[0] ?? '')}.*`)}`;
  if (operator === '=~' || operator === '!~' || values.length === 1) return `${name}${operator}${quote(values[0] ?? '')}`;
  return `${name}${operator === '=' ? '=~' : '!~'}${quote(values.map(literal).join('|'))}`;
}

/** Returns the selector of a field in PromQL. */
export function instant(selector: Selector, field: string): string {
  const name = metricName(selector.measurement, field);
  const conditions = selector.filters.filter((filter) => filter.values.length > 0).map(condition);
  const all = isPlain(name) ? conditions : [quote(name), ...conditions];
  return `${isPlain(name) ? name : ''}${all.length > 0 ? `{${all.join(', ')}}` : ''}`;
}

const duration = (ms: number): string => (ms === 86400e3 ? '1d' : formatDuration(ms < 1000 ? Math.ceil(ms) : Math.ceil(ms / 1000) * 1000));

/** Returns one value per step and series: of all samples of the step, or the latest sample. */
function values(metric: string, { aggregate, rate }: Combination, { step, spacing }: Distances): string {
  if (rate) return `rate(${metric}[${duration(Math.max(step, 4 * spacing, 1000))}])`;
  const over = aggregate === 'min' || aggregate === 'max' ? aggregate : 'avg';
  if (spacing > 0 && step >= 2 * spacing) return `${over}_over_time(${metric}[${duration(step)}])`;
  return 3 * spacing > LOOKBACK ? `last_over_time(${metric}[${duration(3 * spacing)}])` : metric;
}

/** Returns the expression of a field. */
export function expression(selector: Selector, field: string, combination: Combination, distances: Distances): string {
  const inner = values(instant(selector, field), combination, distances);
  const aggregate = AGGREGATES.find((one) => one.name === combination.aggregate);
  if (aggregate === undefined) return inner;
  const by = combination.by.length > 0 ? ` by (${combination.by.map(label).join(', ')}) ` : '';
  return `${aggregate.promql}${by}(${'share' in aggregate ? `${aggregate.share}, ` : ''}${inner})`;
}

/** Returns the name of a combined field for people. */
export function describe(field: string, { aggregate, rate }: Combination): string {
  const title = AGGREGATES.find((one) => one.name === aggregate)?.title;
  return [...(title === undefined ? [] : [title]), ...(rate ? ['rate'] : []), field].join(' of ');
}

/** Returns true if the selection is more than the stored series. */
export const isCombined = (combination: Combination): boolean => combination.aggregate !== null || combination.rate;
