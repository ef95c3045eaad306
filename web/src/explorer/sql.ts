// Statements in SQL: their rows as a table, and as curves if the first column is a time and another one has numbers.

import * as api from '../api';
import { h } from '../dom';
import * as format from '../format';
import type { Window } from '../interval';
import { traces, type Result } from './query';

/** Maximum number of rows in the table. */
const MOST_SHOWN = 500;
/** Form of times in answers. */
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/;

type Cell = string | number | boolean | null | object;

export interface Table {
  columns: string[];
  rows: Cell[][];
  /** True if the answer was longer than the page reads. */
  truncated: boolean;
}

const literal = (ms: number): string => `TIMESTAMP '${new Date(ms).toISOString()}'`;

/** Puts the ends of the window in place of `$from` and `$to`. */
export function bound(text: string, window: Window): string {
  return text.replace(/\$(from|to)\b/g, (_, end: 'from' | 'to') => literal(end === 'from' ? Math.floor(window.from) : Math.ceil(window.to)));
}

/** Returns the rows of an answer: a list of objects with the same names. */
export function table(answer: readonly Record<string, Cell>[], truncated: boolean): Table {
  const columns = Object.keys(answer[0] ?? {});
  return { columns, rows: answer.map((row) => columns.map((column) => row[column] ?? null)), truncated };
}

/** Returns the curves of a table, one for each column of numbers and combination of texts; none without times. */
export function curves({ columns, rows }: Table): api.Stepped[] {
  const isTime = rows.length > 0 && rows.every(([time]) => typeof time === 'string' && TIME.test(time));
  if (!isTime) return [];
  const holds = (at: number, type: string): boolean => rows.some((row) => row[at] !== null) && rows.every((row) => row[at] === null || typeof row[at] === type);
  const others = columns.map((_, at) => at).slice(1);
  const numbers = others.filter((at) => holds(at, 'number'));
  const texts = others.filter((at) => holds(at, 'string'));
  const series = new Map<string, { one: api.Stepped; points: [number, number][] }>();
  for (const row of rows) {
    const time = Date.parse(utc(String(row[0])));
    const tags = Object.fromEntries(texts.filter((at) => row[at] !== null).map((at) => [columns[at]!, String(row[at])]));
    for (const at of numbers) {
      if (row[at] === null) continue;
      const key = `${at}\0${JSON.stringify(tags)}`;
      if (!series.has(key)) series.set(key, { one: { measurement: '', tags, field: columns[at]!, times: [] }, points: [] });
      series.get(key)!.points.push([time, Number(row[at])]);
    }
  }
  return [...series.values()].map(({ one, points }) => {
    // A chart has one value per time: the last one.
    const ordered = [...new Map(points)].sort(([a], [b]) => a - b);
    const values = ordered.map(([, value]) => value);
    return { ...one, times: ordered.map(([time]) => time), mean: values, last: values };
  });
}

/** Times without a zone are in UTC. */
const utc = (time: string): string => `${time.replace(' ', 'T')}${/(Z|[+-]\d\d:?\d\d)$/.test(time) ? '' : 'Z'}`;

/** Runs a statement. At most `limit` curves are drawn. */
export async function askSql(text: string, window: Window, limit: number, signal: AbortSignal): Promise<Result> {
  const q = bound(text, window);
  const answer = await api.sql(q, signal);
  const rows = table(answer.rows as Record<string, Cell>[], answer.truncated);
  const all = curves(rows);
  const shown = all.slice(0, limit);
  const points = shown.reduce((total, series) => total + series.times.length, 0);
  return {
    ...traces(shown, []), states: [], statesSince: null, stepNs: null, levels: [], samples: null, points, truncated: all.length > limit, elsewhere: null,
    asked: { path: api.SQL, parameters: [{ q }] }, table: rows,
  };
}

/** Returns the table of the rows, folded if there are curves. */
export function rowsView({ columns, rows, truncated }: Table, isFolded: boolean): HTMLElement {
  const isNumber = columns.map((_, at) => rows.some((row) => typeof row[at] === 'number'));
  const cell = (value: Cell, at: number): HTMLElement => h('td', { class: isNumber[at] ? 'number' : '' }, value === null ? h('span', { class: 'faint' }, 'null') : typeof value === 'number' ? format.sample(value) : typeof value === 'object' ? JSON.stringify(value) : String(value));
  const head = h('tr', {}, ...columns.map((name, at) => h('th', { scope: 'col', class: isNumber[at] ? 'number' : '' }, name)));
  const body = rows.slice(0, MOST_SHOWN).map((row) => h('tr', {}, ...row.map(cell)));
  const whole = truncated ? 'The answer is longer than the page reads. Add a LIMIT, or take the answer away.' : rows.length > MOST_SHOWN ? `The first ${MOST_SHOWN} of ${format.count(rows.length)} rows are listed.` : null;
  const shown = h('div', { class: 'scroll rows', tabindex: 0, role: 'region', 'aria-label': 'Rows' }, h('table', { class: 'legend', 'aria-label': 'Rows' }, h('thead', {}, head), h('tbody', {}, ...body)));
  const note = whole !== null && h('p', { class: 'faint' }, whole);
  if (!isFolded) return h('section', { class: 'pane' }, shown, note);
  return h('details', { class: 'commands' }, h('summary', {}, `${format.count(rows.length)} rows`), shown, note);
}
