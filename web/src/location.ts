// State of the page in the hash of its address. So a view can be linked to, and the back button works.
// Reading never fails: parts that cannot be parsed get their defaults.

import type { EventSource } from './explorer/events';
import { AGGREGATES, type Combination } from './explorer/promql';
import { formatDuration, parseDuration, sane, type Interval } from './interval';
import { clean, type Demand } from './plan/demand';
import { format, parse, type Selector } from './selector';
import { UNITS, type Unit } from './units';

export interface ExplorerState {
  selector: Selector;
  /** Chosen fields. If the list is empty, the page chooses. */
  fields: string[];
  interval: Interval;
  follow: boolean;
  /** `auto`, or a step such as `10s`. */
  step: string;
  /** Maximum number of requested series. */
  limit: number;
  /** True if each field has its own chart. */
  split: boolean;
  /** True for a logarithmic value axis. */
  log: boolean;
  /** True for times in UTC. */
  utc: boolean;
  unit: Unit;
  /** Fields on the second axis, at the right. */
  right: string[];
  combination: Combination;
  /** Query in PromQL in place of the selector; null if there is none. */
  promql: string | null;
  /** Statement in SQL in place of the selector; null if there is none. */
  sql: string | null;
  /** Texts that are drawn as events over the charts; null for none. */
  events: EventSource | null;
}

/** View of a dashboard: an interval and a time between two refreshes, null for those of the dashboard. */
export interface DashboardView {
  name: string;
  interval: Interval | null;
  refresh: string | null;
}

export type PageState =
  | { page: 'overview' }
  | { page: 'storage' }
  | { page: 'dashboards' }
  | { page: 'dashboard'; view: DashboardView }
  | { page: 'plan'; demand: Demand }
  | { page: 'explorer'; explorer: ExplorerState };

export const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1000;

export function emptyExplorer(): ExplorerState {
  return {
    selector: { measurement: '', filters: [] },
    fields: [],
    interval: { kind: 'last', ms: 3600e3 },
    follow: false,
    step: 'auto',
    limit: DEFAULT_LIMIT,
    split: false,
    log: false,
    utc: false,
    unit: '',
    right: [],
    combination: { aggregate: null, by: [], rate: false },
    promql: null,
    sql: null,
    events: null,
  };
}

/** Returns the hash of a state, `#` included. */
export function write(state: PageState): string {
  if (state.page === 'overview') return '#/';
  if (state.page === 'storage') return '#/storage';
  if (state.page === 'plan') {
    const asked = new URLSearchParams(state.demand).toString();
    return asked === '' ? '#/plan' : `#/plan?${asked}`;
  }
  if (state.page === 'dashboards') return '#/dashboards';
  if (state.page === 'dashboard') {
    const { name, interval, refresh } = state.view;
    const query = new URLSearchParams(interval === null ? {} : writeInterval(interval));
    if (refresh !== null) query.set('refresh', refresh);
    const text = query.toString();
    return `#/d/${encodeURIComponent(name)}${text === '' ? '' : `?${text}`}`;
  }
  return `#/explorer?${writeExplorer(state.explorer)}`;
}

/** Returns the state of the explorer as a query, which a panel of a dashboard stores too. */
export function writeExplorer(state: ExplorerState): string {
  const { selector, fields, interval, follow, step, limit, split, log, utc, unit, right, combination, promql, sql, events } = state;
  const query = new URLSearchParams();
  const select = format(selector);
  if (select !== '') query.set('select', select);
  for (const field of fields) query.append('field', field);
  for (const [name, value] of Object.entries(writeInterval(interval))) query.set(name, value);
  if (follow) query.set('follow', '1');
  if (step !== 'auto') query.set('step', step);
  if (limit !== DEFAULT_LIMIT) query.set('limit', String(limit));
  if (split) query.set('split', '1');
  if (log) query.set('log', '1');
  if (utc) query.set('utc', '1');
  if (unit !== '') query.set('unit', unit);
  for (const field of right) query.append('right', field);
  if (combination.aggregate !== null) query.set('combine', combination.aggregate);
  for (const tag of combination.by) query.append('by', tag);
  if (combination.rate) query.set('rate', '1');
  if (promql !== null) query.set('promql', promql);
  if (sql !== null) query.set('sql', sql);
  if (events !== null) {
    query.set('events', events.select);
    query.set('event', events.field);
  }
  return query.toString();
}

/** Returns an interval as parameters: `last`, or `from` and `to` in ms. */
export function writeInterval(interval: Interval): Record<string, string> {
  if (interval.kind === 'last') return { last: formatDuration(interval.ms) };
  const [from, to] = [interval.from, interval.to].map((time) => String(Math.round(time * 1e6) / 1e6));
  return { from: from!, to: to! };
}

/** Parses a hash. */
export function read(hash: string): PageState {
  const [path, text = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  // The page was named `log` before.
  if (path === 'storage' || path === 'log') return { page: 'storage' };
  if (path === 'plan') return { page: 'plan', demand: clean(new URLSearchParams(text)) };
  if (path === 'dashboards') return { page: 'dashboards' };
  const name = path?.startsWith('d/') === true ? decode(path.slice(2)) : '';
  if (name !== '') {
    const query = new URLSearchParams(text);
    return { page: 'dashboard', view: { name, interval: readInterval(query), refresh: query.get('refresh') } };
  }
  if (path !== 'explorer') return { page: 'overview' };
  return { page: 'explorer', explorer: readExplorer(text) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Parses the query of a state of the explorer. */
export function readExplorer(text: string): ExplorerState {
  const query = new URLSearchParams(text);
  const state = emptyExplorer();
  state.selector = readSelector(query.get('select') ?? '');
  state.fields = [...new Set(query.getAll('field').filter((field) => field !== ''))];
  state.interval = readInterval(query) ?? state.interval;
  state.follow = query.get('follow') === '1' && state.interval.kind === 'last';
  const step = query.get('step') ?? 'auto';
  state.step = parseDuration(step) === null ? 'auto' : step;
  const limit = Number(query.get('limit') ?? DEFAULT_LIMIT);
  state.limit = Number.isInteger(limit) && limit > 0 ? Math.min(limit, MAX_LIMIT) : DEFAULT_LIMIT;
  state.split = query.get('split') === '1';
  state.log = query.get('log') === '1';
  state.utc = query.get('utc') === '1';
  state.unit = UNITS.find((one) => one.name === query.get('unit'))?.name ?? '';
  state.right = [...new Set(query.getAll('right'))];
  const aggregate = AGGREGATES.find((one) => one.name === query.get('combine'))?.name ?? null;
  state.combination = { aggregate, by: aggregate === null ? [] : [...new Set(query.getAll('by'))], rate: query.get('rate') === '1' };
  state.promql = query.get('promql');
  state.sql = state.promql === null ? query.get('sql') : null;
  const [select, field] = [query.get('events') ?? '', query.get('event') ?? ''];
  state.events = select === '' || field === '' ? null : { select, field };
  return state;
}

function readSelector(text: string): Selector {
  try {
    return parse(text);
  } catch {
    return { measurement: '', filters: [] };
  }
}

export function readInterval(query: URLSearchParams): Interval | null {
  const last = parseDuration(query.get('last') ?? '');
  if (last !== null) return { kind: 'last', ms: last };
  const [from, to] = [query.get('from'), query.get('to')];
  if (from === null || to === null || !Number.isFinite(Number(from)) || !Number.isFinite(Number(to))) return null;
  return { kind: 'fixed', ...sane({ from: Number(from), to: Number(to) }) };
}
