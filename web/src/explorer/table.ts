// Table of the drawn values: a row per time and a column per series, the latest first.

import { h, put } from '../dom';
import * as format from '../format';
import { withUnit, type Unit } from '../units';
import type { Result } from './query';

/** Maximum numbers of rows and columns. The links to downloads have all. */
const MOST_ROWS = 500;
const MOST_COLUMNS = 20;

/** Returns the indexes of the latest times with a value in some series. */
export function latestRows(result: Pick<Result, 'times' | 'traces'>, most: number): number[] {
  const shown = result.traces.slice(0, MOST_COLUMNS);
  const rows: number[] = [];
  for (let i = result.times.length - 1; i >= 0 && rows.length < most; i -= 1) {
    if (shown.some((trace) => typeof (trace.odd.get(i) ?? trace.values[i]) === 'number')) rows.push(i);
  }
  return rows;
}

/** Table that is filled while it is open. */
export class ValueTable {
  readonly root = h('details', { class: 'commands', hidden: true }, h('summary', {}, 'Table'));
  private readonly body = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Values' });
  private result: Result | null = null;
  private unit: Unit = '';
  private right: readonly string[] = [];

  constructor() {
    this.root.append(this.body);
    this.root.addEventListener('toggle', () => this.fill());
  }

  /** Shows the values of a result; null hides the table. The fields at the right have no unit. */
  show(result: Result | null, unit: Unit = '', right: readonly string[] = []): void {
    this.root.hidden = result === null || result.traces.length === 0;
    this.result = result;
    this.unit = unit;
    this.right = right;
    this.fill();
  }

  private fill(): void {
    const { result } = this;
    if (!this.root.open || result === null) return;
    const shown = result.traces.slice(0, MOST_COLUMNS);
    const indexes = latestRows(result, MOST_ROWS);
    const heads = ['time', ...shown.map((trace) => trace.label)].map((text, i) => h('th', { scope: 'col', class: i > 0 ? 'number' : '' }, text));
    const rows = indexes.map((i) => h('tr', {}, h('td', {}, format.moment(result.times[i]!, true)), ...shown.map((trace) => h('td', { class: 'number' }, withUnit(trace.odd.get(i) ?? trace.values[i], this.right.includes(trace.key.field) ? '' : this.unit)))));
    const isCut = indexes.length === MOST_ROWS || result.traces.length > MOST_COLUMNS;
    put(
      this.body,
      h('table', { class: 'legend', 'aria-label': 'Values' }, h('thead', {}, h('tr', {}, ...heads)), h('tbody', {}, ...rows)),
      isCut && h('p', { class: 'faint' }, `At most ${MOST_ROWS} times and ${MOST_COLUMNS} series are listed.`),
    );
  }
}
