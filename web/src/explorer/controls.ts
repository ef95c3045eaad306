// Controls of the query: measurement, tags, fields, interval. Every change creates a new state.

import * as api from '../api';
import { h, keepFocus, put, say } from '../dom';
import * as format from '../format';
import { formatDuration, QUICK, resolve, sane, type Interval, type Window } from '../interval';
import type { ExplorerState } from '../location';
import { format as write, OPERATORS, type Filter, type Operator } from '../selector';
import { UNITS, type Unit } from '../units';
import { eventControls } from './event-controls';
import { span } from './find';
import { Picker, type Loaded } from './picker';
import { AGGREGATES, type AggregateName, type Combination } from './promql';
import { listable } from './query';
import { isWritten } from './request';

const STEPS = ['auto', '1s', '10s', '1m', '10m', '1h', '1d'];
/** Maximum number of listed values. If a list has this length, typing requests the values with that prefix. */
const VALUES_LIMIT = 1000;
const OPERATOR_NAMES: Record<Operator, string> = {
  '=': 'is one of',
  '!=': 'is none of',
  '=~': 'matches (regular expression)',
  '!~': 'does not match',
  '^=': 'begins with',
};

/** Effects of the controls. */
export interface Actions {
  change: (state: ExplorerState) => void;
  reload: () => void;
  showAll: () => void;
  writeQuery: () => void;
  writeSql: () => void;
  save: (state: ExplorerState) => void;
}

export class Controls {
  readonly root = h('section', { class: 'controls', 'aria-label': 'Query' });
  private readonly what = h('div', { class: 'row' });
  private readonly when = h('div', { class: 'row' });
  private readonly custom = h('form', { class: 'custom', hidden: true });
  private readonly storedText = h('span', { class: 'stored' });
  private readonly all = h('button', { type: 'button', title: 'From the first to the last stored sample' }, 'All');
  private readonly customButton = h('button', { type: 'button' });
  private measurement: Picker | null = null;
  private stored: Window | null = null;
  private interval: Interval | null = null;

  constructor(
    private readonly actions: Actions,
    lines: HTMLElement[],
  ) {
    put(this.root, ...lines, this.what, this.when, this.custom);
    this.all.addEventListener('click', actions.showAll);
    this.customButton.addEventListener('click', () => {
      this.custom.hidden = !this.custom.hidden;
      this.customButton.setAttribute('aria-expanded', String(!this.custom.hidden));
    });
  }

  /** Opens the search for a measurement. */
  search(): void {
    this.measurement?.open();
  }

  /** Shows the times from the first to the last stored sample of the selection. */
  showStored(stored: Window | null): void {
    this.stored = stored;
    this.sayStored();
    if (this.interval !== null) this.pressEnds(this.interval);
  }

  private sayStored(): void {
    say(this.storedText, this.stored === null ? '' : `Stored: ${span(this.stored)}`);
  }

  /** Shows a state. `shown` are the fields that apply if the state names none. */
  render(state: ExplorerState, fields: readonly api.Field[], shown: readonly string[]): void {
    keepFocus(this.root, () => this.draw(state, fields, shown));
  }

  private draw(state: ExplorerState, fields: readonly api.Field[], shown: readonly string[]): void {
    const { selector } = state;
    this.what.hidden = isWritten(state);
    this.measurement?.close(false);
    this.measurement = this.measurementPicker(state);
    const chips = selector.filters.map((filter, at) => this.filterChip(state, filter, at));
    put(
      this.what,
      group('Measurement', this.measurement.button, this.findButton(state)),
      selector.measurement !== '' && group('Where', ...chips, this.addFilter(state)),
      selector.measurement !== '' && group('Fields', this.fieldPicker(state, fields, shown), shown.length > 1 && !state.split && this.rightPicker(state, shown)),
      selector.measurement !== '' && group('Combine', ...this.combineControls(state)),
      writeButton('PromQL…', 'Write a query in PromQL', this.actions.writeQuery),
      writeButton('SQL…', 'Write a statement in SQL', this.actions.writeSql),
    );
    this.interval = state.interval;
    this.sayStored();
    put(this.when, ...this.intervalControls(state));
    this.renderCustom(state);
  }

  private measurementPicker(state: ExplorerState): Picker {
    const { measurement } = state.selector;
    return new Picker({
      label: 'Measurement',
      face: measurement === '' ? 'Choose…' : measurement,
      class: 'strong',
      multiple: false,
      chosen: measurement === '' ? [] : [measurement],
      load: async (_, signal) => names(await api.measurements(signal)),
      onChoose: ([chosen]) => this.actions.change({ ...state, selector: { measurement: chosen!, filters: [] }, fields: [], combination: { ...state.combination, by: [] } }),
    });
  }

  private findButton(state: ExplorerState): HTMLElement | false {
    if (state.selector.measurement === '') return false;
    const button = h('button', { type: 'button', class: 'picker quiet', title: 'Search measurements, tags, values and fields' }, 'Find data…');
    button.addEventListener('click', () => this.actions.change({ ...state, selector: { measurement: '', filters: [] }, fields: [] }));
    return button;
  }

  private fieldPicker(state: ExplorerState, fields: readonly api.Field[], shown: readonly string[]): HTMLElement {
    const face = shown.length === 0 ? 'Choose…' : shown.length > 3 ? `${shown.slice(0, 2).join(', ')} and ${shown.length - 2} more` : shown.join(', ');
    return new Picker({
      label: 'Fields',
      face,
      multiple: true,
      chosen: shown,
      load: () => Promise.resolve({ choices: listable(fields).map((field) => ({ value: field.name, note: field.type })) }),
      onChoose: (chosen) => this.actions.change({ ...state, fields: chosen }),
    }).button;
  }

  private combineControls(state: ExplorerState): HTMLElement[] {
    const { combination } = state;
    const set = (change: Partial<Combination>): void => this.actions.change({ ...state, combination: { ...combination, ...change } });
    const select = h('select', { 'aria-label': 'Combine series' }, h('option', { value: '' }, 'each series'), ...AGGREGATES.map(({ name, title }) => h('option', { value: name, selected: name === combination.aggregate }, title)));
    select.addEventListener('change', () => set(select.value === '' ? { aggregate: null, by: [] } : { aggregate: select.value as AggregateName }));
    const by = new Picker({
      label: 'A curve for each value of',
      face: combination.by.length === 0 ? 'by tag' : `by ${combination.by.join(', ')}`,
      class: 'quiet',
      multiple: true,
      chosen: combination.by,
      load: async (_, signal) => names(await api.tags(write(state.selector), signal)),
      onChoose: (tags) => set({ by: tags }),
    });
    const rate = switchOf('Rate', 'Increase of a counter per second', combination.rate, (on) => set({ rate: on }));
    return combination.aggregate === null ? [select, rate] : [select, by.button, rate];
  }

  private rightPicker(state: ExplorerState, shown: readonly string[]): HTMLElement {
    const chosen = state.right.filter((field) => shown.includes(field));
    return new Picker({
      label: 'Fields on the right axis',
      face: chosen.length === 0 ? 'right axis' : `right: ${chosen.join(', ')}`,
      class: 'quiet',
      multiple: true,
      chosen,
      load: () => Promise.resolve(names(shown)),
      onChoose: (right) => this.actions.change({ ...state, right }),
    }).button;
  }

  private filterChip(state: ExplorerState, filter: Filter, at: number): HTMLElement {
    const { filters } = state.selector;
    const replace = (next: Filter | null): void => {
      const changed = filters.flatMap((one, i) => (i !== at ? [one] : next === null ? [] : [next]));
      this.actions.change({ ...state, selector: { ...state.selector, filters: changed } });
    };
    const others = { ...state.selector, filters: filters.filter((_, i) => i !== at) };
    const picker = this.valuePicker(filter, write(others), others, replace);
    const drop = h('button', { type: 'button', class: 'drop', 'aria-label': `Drop the condition on ${filter.tag}` }, '×');
    drop.addEventListener('click', () => replace(null));
    return h('span', { class: 'chip' }, picker.button, drop);
  }

  private valuePicker(filter: Filter, select: string, others: ExplorerState['selector'], replace: (filter: Filter | null) => void): Picker {
    const listed = filter.operator === '=' || filter.operator === '!=';
    const operator = h('select', { 'aria-label': 'Condition' }, ...OPERATORS.map((one) => h('option', { value: one, selected: one === filter.operator }, OPERATOR_NAMES[one])));
    operator.addEventListener('change', () => {
      const next = operator.value as Operator;
      const keep = next === '=' || next === '!=' ? filter.values : filter.values.slice(0, 1);
      picker.close(false);
      replace({ ...filter, operator: next, values: keep });
    });
    const picker: Picker = new Picker({
      label: `Values of ${filter.tag}`,
      face: `${filter.tag} ${filter.operator} ${filter.values.length > 3 ? `${filter.values.slice(0, 2).join(', ')} +${filter.values.length - 2}` : filter.values.map((value) => (value === '' ? '(empty)' : value)).join(', ')}`,
      multiple: listed,
      free: true,
      chosen: filter.values,
      head: h('label', { class: 'head' }, h('b', {}, filter.tag), operator),
      load: async (typed, signal) => {
        const values = await api.values(select, filter.tag, signal);
        if (values.length < VALUES_LIMIT) return names(values);
        const narrowed = write({ ...others, filters: [...others.filters, { tag: filter.tag, operator: '^=', values: [typed] }] });
        return { ...names(await api.values(narrowed, filter.tag, signal)), partial: true };
      },
      onChoose: (values) => replace(values.length === 0 ? null : { ...filter, values }),
    });
    return picker;
  }

  /** Adds a filter in two steps: the tag, then its values. */
  private addFilter(state: ExplorerState): HTMLElement {
    const select = write(state.selector);
    const holder = h('span', { class: 'adder' });
    const begin = new Picker({
      label: 'Add a condition on a tag',
      face: '+ tag',
      class: 'quiet',
      multiple: false,
      chosen: [],
      load: async (_, signal) => names(await api.tags(select, signal)),
      onChoose: ([tag]) => {
        const add = (filter: Filter | null): void => {
          if (filter !== null) this.actions.change({ ...state, selector: { ...state.selector, filters: [...state.selector.filters, filter] } });
        };
        const picker = this.valuePicker({ tag: tag!, operator: '=', values: [] }, select, state.selector, add);
        put(holder, picker.button);
        picker.open();
      },
    });
    put(holder, begin.button);
    return holder;
  }

  private intervalControls(state: ExplorerState): HTMLElement[] {
    const { interval } = state;
    const quick = QUICK.map(([label, ms]) => {
      const on = interval.kind === 'last' && interval.ms === ms;
      const button = h('button', { type: 'button', 'aria-pressed': on ? 'true' : 'false', 'aria-label': `Last ${label}` }, label);
      button.addEventListener('click', () => this.actions.change({ ...state, interval: { kind: 'last', ms } }));
      return button;
    });
    this.pressEnds(state.interval);
    this.customButton.setAttribute('aria-expanded', String(!this.custom.hidden));
    const reload = h('button', { type: 'button', class: 'small', title: 'Ask again (r)' }, 'Reload');
    reload.addEventListener('click', this.actions.reload);
    return [
      h('div', { class: 'segments', role: 'group', 'aria-label': 'Interval' }, ...quick, this.all, this.customButton),
      this.follow(state),
      this.stepChoice(state),
      switchOf('Split by field', 'A chart for each field', state.split, (split) => this.actions.change({ ...state, split })),
      switchOf('Log', 'Logarithmic axis of values', state.log, (log) => this.actions.change({ ...state, log })),
      this.unitChoice(state),
      switchOf('UTC', 'Times in UTC in place of local times', state.utc, (utc) => this.actions.change({ ...state, utc })),
      ...eventControls(state, this.actions.change),
      reload,
      ...this.saveButton(state),
      this.storedText,
    ];
  }

  private saveButton(state: ExplorerState): HTMLElement[] {
    if ((state.promql ?? state.sql ?? state.selector.measurement) === '') return [];
    const button = h('button', { type: 'button', class: 'small', title: 'Add this view to a dashboard' }, 'Save as panel…');
    button.addEventListener('click', () => this.actions.save(state));
    return [button];
  }

  /** Marks the button of an interval without a preset: all samples, or a custom interval. */
  private pressEnds(interval: Interval): void {
    const isAll = interval.kind === 'fixed' && this.stored !== null && interval.from === this.stored.from && interval.to === this.stored.to;
    const isCustom = interval.kind === 'fixed' ? !isAll : !QUICK.some(([, ms]) => ms === interval.ms);
    this.all.setAttribute('aria-pressed', String(isAll));
    this.customButton.setAttribute('aria-pressed', String(isCustom));
    say(this.customButton, interval.kind === 'last' && isCustom ? formatDuration(interval.ms) : 'Custom');
  }

  private follow(state: ExplorerState): HTMLElement {
    return switchOf('Follow', 'Repeat the query as time passes (f)', state.follow, (follow) => this.actions.change(followed(state, follow)));
  }

  private stepChoice(state: ExplorerState): HTMLElement {
    const steps = STEPS.includes(state.step) ? STEPS : [...STEPS, state.step];
    const select = h('select', { title: 'Distance of points; auto gives about one point per pixel' }, ...steps.map((step) => h('option', { value: step, selected: step === state.step }, step)));
    select.addEventListener('change', () => this.actions.change({ ...state, step: select.value }));
    return h('label', { class: 'inline' }, 'Step', select);
  }

  private unitChoice(state: ExplorerState): HTMLElement {
    const select = h('select', {}, ...UNITS.map(({ name, title }) => h('option', { value: name, selected: name === state.unit }, title)));
    select.addEventListener('change', () => this.actions.change({ ...state, unit: select.value as Unit }));
    return h('label', { class: 'inline' }, 'Unit', select);
  }

  private renderCustom(state: ExplorerState): void {
    const window = resolve(state.interval, Date.now());
    const from = h('input', { type: 'datetime-local', step: 1, value: format.local(window.from), required: true });
    const to = h('input', { type: 'datetime-local', step: 1, value: format.local(window.to), required: true });
    put(this.custom, h('label', { class: 'inline' }, 'From', from), h('label', { class: 'inline' }, 'To', to), h('button', { type: 'submit', class: 'small' }, 'Apply'));
    this.custom.onsubmit = (event) => {
      event.preventDefault();
      this.custom.hidden = true;
      const ends = sane({ from: format.parseLocal(from.value), to: format.parseLocal(to.value) });
      this.actions.change({ ...state, follow: false, interval: { kind: 'fixed', ...ends } });
    };
  }
}

/** Sets following. A fixed interval becomes the latest interval of the same length, so that it ends now. */
export function followed(state: ExplorerState, follow: boolean): ExplorerState {
  if (!follow || state.interval.kind === 'last') return { ...state, follow };
  const ms = Math.max(1000, Math.round((state.interval.to - state.interval.from) / 1000) * 1000);
  return { ...state, follow, interval: { kind: 'last', ms } };
}

const names = (values: readonly string[]): Loaded => ({ choices: values.map((value) => ({ value })) });

function group(label: string, ...children: (HTMLElement | false)[]): HTMLElement {
  return h('div', { class: 'group', role: 'group', 'aria-label': label }, h('span', { class: 'label', 'aria-hidden': 'true' }, label), ...children);
}

function writeButton(face: string, title: string, write: () => void): HTMLElement {
  const button = h('button', { type: 'button', class: 'picker quiet', title }, face);
  button.addEventListener('click', write);
  return button;
}

function switchOf(label: string, title: string, on: boolean, set: (on: boolean) => void): HTMLElement {
  const button = h('button', { type: 'button', role: 'switch', 'aria-checked': on ? 'true' : 'false', class: 'switch', title }, h('i', {}), label);
  button.addEventListener('click', () => set(!on));
  return button;
}
