// A chart with its legend, which shows the values under the cursor and figures over the interval.

import type { SeriesKey } from '../api';
import { Chart, type Mark, type Options } from '../chart';
import { h, put, say } from '../dom';
import * as format from '../format';
import type { Window } from '../interval';
import type { Value } from '../samples';
import { SERIES_COLOURS } from '../theme';
import { axis, withUnit, type Unit } from '../units';
import type { Trace } from './query';

export interface Display {
  unit: Unit;
  /** True for a logarithmic axis of values. */
  log: boolean;
  /** Names of the fields on the second axis, which has no unit. */
  right: readonly string[];
}

interface Row {
  root: HTMLElement;
  at: HTMLElement;
  figures: HTMLElement[];
}

export const identity = (key: SeriesKey): string => `${key.measurement}\0${JSON.stringify(key.tags)}\0${key.field}`;

export class Pane {
  readonly root = h('section', { class: 'pane' });
  readonly chart: Chart;
  private readonly host = h('div', { class: 'plot' });
  private readonly clock = h('th', { scope: 'col', class: 'number clock' }, 'latest');
  private readonly body = h('tbody');
  private readonly heading = h('h3');
  private rows: Row[] = [];
  private traces: Trace[] = [];
  private colours: number[] = [];
  private times: number[] = [];
  private shape = '';
  private display: Display = { unit: '', log: false, right: [] };
  private readonly hidden = new Set<string>();

  constructor(
    readonly name: string,
    options: Omit<Options, 'onCursor' | 'label' | 'axis' | 'rightAxis' | 'isLog'>,
  ) {
    this.chart = new Chart(this.host, {
      ...options,
      label: `Chart of ${name}`,
      axis: (splits) => axis(splits, this.display.unit, this.display.log),
      rightAxis: (splits) => axis(splits, '', this.display.log),
      isLog: () => this.display.log,
      onCursor: (places) => this.point(places),
    });
    const columns = ['min', 'mean', 'max', 'samples'].map((text) => h('th', { scope: 'col', class: `number ${text}` }, text));
    const table = h('table', { class: 'legend' }, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'series'), this.clock, ...columns)), this.body);
    put(this.root, this.heading, this.host, h('div', { class: 'scroll' }, table));
    this.host.addEventListener('mouseleave', () => this.point(null));
  }

  /** Shows traces in the given colours, so that a series has the same colour in all panes. */
  show(title: string, window: Window, times: number[], traces: Trace[], colours: number[], display: Display, marks: readonly Mark[] = []): void {
    if (display.unit !== this.display.unit || display.log !== this.display.log) this.chart.changed();
    this.display = display;
    say(this.heading, title);
    this.heading.hidden = title === '';
    this.times = times;
    this.traces = traces;
    this.colours = colours;
    this.chart.show(
      window,
      times,
      traces.map((trace, i) => ({
        label: identity(trace.key),
        colour: colours[i]!,
        values: trace.values,
        right: display.right.includes(trace.key.field),
        stepped: trace.key.type === 'bool',
        ...(trace.low && trace.high ? { low: trace.low, high: trace.high } : {}),
      })),
      marks,
    );
    const shape = traces.map((trace) => `${identity(trace.key)}\0${trace.label}\0${display.right.includes(trace.key.field)}`).join('\n');
    if (shape !== this.shape) {
      this.shape = shape;
      this.build();
    }
    this.fill();
  }

  destroy(): void {
    this.chart.destroy();
  }

  private build(): void {
    this.rows = this.traces.map((trace, i) => this.row(trace, i));
    put(this.body, ...this.rows.map((row) => row.root));
    this.traces.forEach((trace, i) => {
      if (this.hidden.has(identity(trace.key))) this.chart.toggle(i, false);
    });
  }

  private row(trace: Trace, i: number): Row {
    const id = identity(trace.key);
    const swatch = h('i', { class: `swatch s${this.colours[i]! % SERIES_COLOURS}` });
    const button = h('button', { type: 'button', class: 'series', 'aria-pressed': String(!this.hidden.has(id)), title: `${trace.key.measurement} ${format.tags(trace.key.tags)} ${trace.key.field} (${trace.key.type})` }, swatch, trace.label, this.display.right.includes(trace.key.field) && h('span', { class: 'faint' }, 'right axis'));
    button.addEventListener('click', () => {
      const show = this.hidden.delete(id);
      if (!show) this.hidden.add(id);
      button.setAttribute('aria-pressed', String(show));
      this.chart.toggle(i, show);
    });
    const at = h('td', { class: 'number at' });
    const figures = ['min', 'mean', 'max', 'samples'].map((name) => h('td', { class: `number ${name}` }));
    const root = h('tr', {}, h('td', {}, button), at, ...figures);
    root.addEventListener('mouseenter', () => this.chart.focus(i));
    root.addEventListener('mouseleave', () => this.chart.focus(null));
    return { root, at, figures };
  }

  /** Returns the unit of a trace. */
  private unitOf(trace: Trace): Unit {
    return this.display.right.includes(trace.key.field) ? '' : this.display.unit;
  }

  private fill(): void {
    this.traces.forEach((trace, i) => {
      const unit = this.unitOf(trace);
      const { min, mean, max, samples } = trace.summary;
      const [low, middle, high, number] = this.rows[i]!.figures;
      say(low!, isFinite(min) ? withUnit(min, unit) : '–');
      say(middle!, Number.isFinite(mean) ? withUnit(mean, unit) : '–');
      say(high!, isFinite(max) ? withUnit(max, unit) : '–');
      say(number!, format.count(samples));
    });
    this.point(null);
  }

  private point(places: (number | null)[] | null): void {
    const place = places?.find((one) => one !== null);
    const time = place === undefined || place === null ? undefined : this.times[place];
    say(this.clock, time === undefined ? 'latest' : format.moment(time, this.chart.window.to - this.chart.window.from < 60e3));
    this.traces.forEach((trace, i) => {
      const row = this.rows[i];
      if (row === undefined) return;
      say(row.at, time === undefined ? formatted(trace, trace.summary.last, this.unitOf(trace)) : formatted(trace, valueAt(trace, places![i]), this.unitOf(trace)));
    });
  }
}

function valueAt(trace: Trace, at: number | null | undefined): Value {
  return at === null || at === undefined ? null : (trace.odd.get(at) ?? trace.values[at]);
}

const isFinite = (value: number | bigint): boolean => typeof value === 'bigint' || Number.isFinite(value);

function formatted(trace: Trace, value: Value | bigint, unit: Unit): string {
  return trace.key.type === 'bool' && (value === 0 || value === 1) ? String(value === 1) : withUnit(value, unit);
}
