// Charts of an answer, one below the other: numbers, switches, states of texts, rows of SQL. The explorer has one
// stage, and each panel of a dashboard has one.

import { h, put } from '../dom';
import type { Window } from '../interval';
import type { ExplorerState } from '../location';
import { eventList, marks } from './events';
import { Pane, type Display } from './pane';
import type { Trace } from './query';
import { rightFields, type Answer } from './request';
import { rowsView } from './sql';
import { statesView } from './states';

const SWITCHES = 'on or off';

export interface StageOptions {
  /** Returns the height of a chart of numbers, px. `charts` is the number of charts. */
  height: (charts: number) => number;
  /** Key of the cursor, which charts of several stages can share. */
  sync: string;
  /** True if the wheel scrolls the page in place of the chart. */
  noWheel?: boolean;
  onWindow: (window: Window, gesture: 'drag' | 'wheel' | 'pan') => void;
  onBack: () => void;
}

export class Stage {
  readonly root = h('div', { class: 'stage' });
  private panes = new Map<string, Pane>();

  constructor(private readonly options: StageOptions) {}

  /** Shows an answer. `nothing` is shown in place of an empty one. */
  show(state: ExplorerState, { question, result, events }: Answer, nothing: () => HTMLElement): void {
    const groups = grouped(result.traces, state.split);
    const old = this.panes;
    this.panes = new Map();
    for (const name of groups.keys()) this.panes.set(name, old.get(name) ?? this.pane(name));
    for (const [name, pane] of old) if (!this.panes.has(name)) pane.destroy();
    const extras = [
      result.states.length > 0 && statesView(question.window, result.states, result.statesSince),
      result.table !== undefined && result.table.rows.length > 0 && rowsView(result.table, result.traces.length > 0),
      result.traces.length + result.states.length + (result.table?.rows.length ?? 0) === 0 && nothing(),
      events !== null && eventList(events, this.root),
    ].filter((extra): extra is HTMLElement => extra !== false);
    const wanted = [...this.panes.values()].map((pane) => pane.root);
    const shown = [...this.root.children].slice(0, wanted.length);
    // A chart that stays in the document keeps its cursor.
    if (shown.length === wanted.length && wanted.every((root, i) => root === shown[i])) {
      while (this.root.children.length > wanted.length) this.root.lastElementChild!.remove();
      this.root.append(...extras);
    } else put(this.root, ...wanted, ...extras);
    const display: Display = { unit: state.unit, log: state.log, right: rightFields(state) };
    for (const [name, traces] of groups) {
      const title = groups.size > 1 ? name : '';
      const how = name === SWITCHES ? { unit: '' as const, log: false, right: [] } : display;
      this.panes.get(name)!.show(title, question.window, result.times, traces, traces.map((trace) => result.traces.indexOf(trace)), how, marks(events));
    }
    this.root.classList.toggle('evaluated', result.samples === null);
  }

  /** Removes the charts, and shows something else or nothing. */
  clear(instead: HTMLElement | null): void {
    for (const pane of this.panes.values()) pane.destroy();
    this.panes.clear();
    put(this.root, instead);
  }

  /** Moves the drawn data at once. */
  look(window: Window): void {
    for (const pane of this.panes.values()) pane.chart.look(window);
  }

  private pane(name: string): Pane {
    const switches = name === SWITCHES;
    return new Pane(name, {
      height: () => (switches ? 120 : this.options.height(this.panes.size)),
      ...(switches ? { ends: [-0.08, 1.08] as [number, number] } : {}),
      ...(this.options.noWheel === true ? { noWheel: true } : {}),
      sync: this.options.sync,
      onWindow: this.options.onWindow,
      onBack: this.options.onBack,
    });
  }
}

/** Groups traces by chart. Booleans have a separate chart. Numbers share a chart, or have one chart per field. */
function grouped(traces: readonly Trace[], split: boolean): Map<string, Trace[]> {
  const groups = new Map<string, Trace[]>();
  for (const trace of traces) {
    const name = trace.key.type === 'bool' ? SWITCHES : split ? trace.key.field : 'values';
    groups.set(name, [...(groups.get(name) ?? []), trace]);
  }
  return groups;
}
