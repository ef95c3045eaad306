// The explorer. Its state is read from the address, and changes are written to the address.

import * as access from '../access';
import * as api from '../api';
import { h, put, say } from '../dom';
import * as format from '../format';
import { formatDuration, nanoseconds, pan, refreshEvery, resolve, zoom, type Interval, type Window } from '../interval';
import { DEFAULT_LIMIT, emptyExplorer, type ExplorerState } from '../location';
import { format as write, type Filter } from '../selector';
import { firstLine } from '../welcome';
import { overlap, stored } from './catalog';
import { Commands } from './commands';
import { Controls, followed } from './controls';
import { evaluate, spacing, stepFor } from './evaluate';
import { Find } from './find';
import { Pane, type Display } from './pane';
import { describe, expression, instant, isCombined } from './promql';
import { QueryLine } from './query-line';
import { ask, exports, firstFields, type Question, type Result, type Trace } from './query';
import { statesView } from './states';
import { ValueTable } from './table';

/** Time without movement after which a gesture is over, ms. */
const GESTURE_END_MS = 180;
/** Maximum time between gestures that form one step of the history, ms. */
const SAME_GESTURE_MS = 1500;
const AXIS_PX = 58;

export type Navigate = (state: ExplorerState, how: 'push' | 'replace') => void;

export class Explorer {
  readonly root = h('div', { class: 'explorer' });
  private readonly controls: Controls;
  private readonly find = new Find((measurement, filters, field, range) => this.found(measurement, filters, field, range));
  private readonly line = new QueryLine(
    (promql) => this.run(promql),
    () => this.state !== null && this.change({ ...this.state, promql: null }),
  );
  private readonly commands = new Commands();
  private readonly table = new ValueTable();
  private readonly heading = h('div', { class: 'heading' });
  private readonly notices = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly stage = h('div', { class: 'stage' });
  private readonly footer = h('p', { class: 'footer' });
  private panes = new Map<string, Pane>();
  private state: ExplorerState | null = null;
  private before: Interval[] = [];
  private flight: AbortController | null = null;
  private timer: number | undefined;
  private gestureTimer: number | undefined;
  private lastGesture = 0;
  private view: Window | null = null;
  /** Fields and number of sources of the last full query. Refreshes of a followed interval reuse them. */
  private known: { select: string; fields: api.Field[]; total: number | null } | null = null;

  /** Expressions of the present chart, if it combines series. */
  private expressions: string[] = [];

  constructor(private readonly navigate: Navigate) {
    this.controls = new Controls(
      (state) => this.change(state),
      () => this.reload(),
      () => void this.showAll(),
      () => this.writeQuery(),
      this.line.root,
    );
    put(this.root, this.controls.root, h('section', { class: 'card board', 'aria-label': 'Answer' }, this.heading, this.notices, this.stage, this.footer, this.table.root, this.commands.root));
  }

  /** Shows a state from the address. */
  show(state: ExplorerState): void {
    const other = this.state === null || write(this.state.selector) !== write(state.selector);
    this.state = state;
    this.view = null;
    this.expressions = [];
    this.line.show(state.promql);
    if (other) this.controls.render(state, [], state.fields);
    void this.refresh(true);
  }

  stop(): void {
    this.flight?.abort();
    this.find.stop();
    window.clearTimeout(this.timer);
    window.clearTimeout(this.gestureTimer);
  }

  reload(): void {
    void this.refresh(true);
  }

  search(): void {
    this.controls.search();
  }

  toggleFollow(): void {
    if (this.state !== null) this.change(followed(this.state, !this.state.follow));
  }

  /** Zooms or pans after a key press. */
  move(how: { zoom: number } | { pan: number }): void {
    const from = this.view ?? this.window();
    this.look('zoom' in how ? zoom(from, how.zoom) : pan(from, how.pan));
  }

  /** Returns to the interval before the last zoom. */
  back(): void {
    if (this.state === null) return;
    const interval = this.before.pop() ?? (this.state.interval.kind === 'fixed' ? { kind: 'last' as const, ms: 3600e3 } : null);
    if (interval !== null) this.navigate({ ...this.state, interval }, 'push');
  }

  private change(state: ExplorerState): void {
    const sameInterval = this.state !== null && JSON.stringify(this.state.interval) === JSON.stringify(state.interval);
    if (!sameInterval) this.before = [];
    this.navigate(state, 'push');
  }

  private window(): Window {
    return resolve(this.state!.interval, Date.now());
  }

  private go(window: Window, how: 'push' | 'replace'): void {
    if (this.state === null) return;
    if (how === 'push') this.before.push(this.state.interval);
    this.navigate({ ...this.state, follow: false, interval: { kind: 'fixed', from: window.from, to: window.to } }, how);
  }

  /** Moves the drawn data at once, and sends a query after the gesture. */
  private look(window_: Window): void {
    this.view = window_;
    window.clearTimeout(this.timer);
    this.flight?.abort();
    for (const pane of this.panes.values()) pane.chart.look(window_);
    this.sayWindow(window_);
    window.clearTimeout(this.gestureTimer);
    this.gestureTimer = window.setTimeout(() => {
      const now = Date.now();
      const same = now - this.lastGesture < SAME_GESTURE_MS;
      this.lastGesture = now;
      this.go(window_, same ? 'replace' : 'push');
    }, GESTURE_END_MS);
  }

  private async refresh(loud: boolean): Promise<void> {
    const state = this.state;
    if (state === null) return;
    this.flight?.abort();
    window.clearTimeout(this.timer);
    const flight = new AbortController();
    this.flight = flight;
    if (loud) this.root.setAttribute('aria-busy', 'true');
    try {
      await this.answer(state, flight.signal, loud);
    } catch (error) {
      if (flight.signal.aborted) return;
      this.fail(error);
    }
    this.root.removeAttribute('aria-busy');
    if (state.follow && state.interval.kind === 'last') {
      this.timer = window.setTimeout(() => void this.refresh(false), refreshEvery(state.interval.ms));
    }
  }

  private async answer(state: ExplorerState, signal: AbortSignal, loud: boolean): Promise<void> {
    const select = write(state.selector);
    if (state.promql !== null) {
      if (loud) this.controls.render(state, [], []);
      await this.evaluated(state, state.promql, signal);
      return;
    }
    if (state.selector.measurement === '') {
      await this.invite(state, signal);
      return;
    }
    if (loud || this.known?.select !== select) this.known = { select, fields: await api.fields(select, signal), total: null };
    // The chart does not wait for the times of the store, and does not need them.
    if (loud) this.sayStored(select, signal).catch(() => undefined);
    const { fields } = this.known;
    const shown = state.fields.length > 0 ? state.fields : firstFields(fields);
    if (loud) this.controls.render(state, fields, shown);
    const chosen = fields.filter((field) => shown.includes(field.name));
    if (chosen.length === 0) {
      this.clear(`Nothing here: no source fits ${select}${state.fields.length > 0 ? ` with the field ${state.fields.join(', ')}` : ''}.`);
      return;
    }
    const question: Question = { select, fields: chosen, window: this.window(), step: state.step, width: this.width(), limit: state.limit };
    const started = performance.now();
    const result = isCombined(state.combination) ? await this.combined(state, question, signal) : await ask(question, signal);
    this.draw(state, question, result, performance.now() - started);
    if (result.truncated) {
      this.known.total ??= await api.sourceCount(select, signal);
      this.sayTruncated(state, this.known.total);
    }
  }

  private async evaluated(state: ExplorerState, promql: string, signal: AbortSignal): Promise<void> {
    if (promql === '') {
      this.clear('Write a query, and press Enter.');
      return;
    }
    const question: Question = { select: '', fields: [], window: this.window(), step: state.step, width: this.width(), limit: state.limit };
    const started = performance.now();
    const result = await evaluate([{ text: promql, name: null }], question.window, stepFor(question.window, state.step, question.width), state.limit, signal);
    this.line.fail(null);
    this.draw(state, question, result, performance.now() - started);
    if (result.truncated) this.sayTruncated(state, null);
  }

  /** Opens the line with the query of the present chart. */
  private writeQuery(): void {
    const { state } = this;
    if (state === null) return;
    const field = (state.fields.length > 0 ? state.fields : firstFields(this.known?.fields ?? []))[0];
    const plain = field === undefined || state.selector.measurement === '' ? '' : instant(state.selector, field);
    this.change({ ...state, promql: this.expressions[0] ?? plain });
  }

  private run(promql: string): void {
    if (this.state === null) return;
    if (promql === this.state.promql) this.reload();
    else this.change({ ...this.state, promql });
  }

  private width(): number {
    return Math.max(100, this.stage.clientWidth - AXIS_PX);
  }

  /** Evaluates an aggregation or a rate of the chosen fields. */
  private async combined(state: ExplorerState, question: Question, signal: AbortSignal): Promise<Result> {
    const { window, select } = question;
    const numbers = question.fields.filter((field) => field.type !== 'string');
    const step = stepFor(window, state.step, question.width);
    const ends = { from: nanoseconds(window.from), to: nanoseconds(window.to) };
    const expressions = await Promise.all(numbers.map(async ({ name }) => {
      const distances = { step, spacing: await spacing(select, name, ends, signal) };
      return { text: expression(state.selector, name, state.combination, distances), name: describe(name, state.combination) };
    }));
    const result = await evaluate(expressions, window, step, state.limit, signal);
    this.expressions = expressions.map((one) => one.text);
    if (result.points > 0) return result;
    // The store states where samples are.
    return { ...result, elsewhere: (await ask(question, signal)).elsewhere };
  }

  private async invite(state: ExplorerState, signal: AbortSignal): Promise<void> {
    this.controls.render(state, [], []);
    const summaries = await api.summary('', signal);
    this.controls.showStored(stored(summaries));
    this.clear('');
    if (summaries.length === 0) {
      put(this.stage, firstLine());
      return;
    }
    put(this.stage, this.find.root);
    this.find.show(summaries);
  }

  /** Shows what a search found, with all its samples if the present interval has none. */
  private found(measurement: string, filters: Filter[], field: string | null, range: Window | null): void {
    const state = this.state ?? emptyExplorer();
    const interval: Interval = range === null || overlap(range, this.window()) ? state.interval : { kind: 'fixed', ...range };
    const follow = state.follow && interval.kind === 'last';
    this.change({ ...state, follow, interval, selector: { measurement, filters }, fields: field === null ? [] : [field], combination: emptyExplorer().combination });
  }

  /** Shows all stored samples of the selected sources. */
  private async showAll(): Promise<void> {
    if (this.state === null) return;
    try {
      const range = stored(await api.summary(write(this.state.selector)));
      this.controls.showStored(range);
      if (range !== null) this.go(range, 'push');
    } catch (error) {
      this.fail(error);
    }
  }

  /** Shows the times of the stored samples beside the interval. */
  private async sayStored(select: string, signal: AbortSignal): Promise<void> {
    const range = stored(await api.summary(select, signal));
    if (!signal.aborted) this.controls.showStored(range);
  }

  private fail(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (this.state !== null && this.state.promql !== null && error instanceof api.ServerError && error.status >= 400 && error.status < 500) {
      this.line.fail(message);
      this.clear('');
      return;
    }
    put(this.notices, h('p', { class: 'notice severe' }, message));
  }

  private clear(message: string): void {
    for (const pane of this.panes.values()) pane.destroy();
    this.panes.clear();
    put(this.heading);
    put(this.notices);
    put(this.stage, message !== '' && h('p', { class: 'quiet' }, message));
    put(this.footer);
    this.table.show(null);
    this.commands.hide();
  }

  private draw(state: ExplorerState, question: Question, result: Result, took: number): void {
    put(this.notices);
    this.drawHeading(question, result);
    const groups = grouped(result.traces, state.split);
    const old = this.panes;
    this.panes = new Map();
    for (const name of groups.keys()) this.panes.set(name, old.get(name) ?? this.pane(name));
    for (const [name, pane] of old) if (!this.panes.has(name)) pane.destroy();
    const ribbons = result.states.length > 0 && statesView(question.window, result.states, result.statesSince);
    const nothing = result.traces.length + result.states.length === 0 && this.nothing(result);
    const wanted = [...this.panes.values()].map((pane) => pane.root);
    const current = [...this.stage.children].filter((child) => !child.classList.contains('states'));
    const kept = current.length === wanted.length && wanted.every((root, i) => root === current[i]) && ribbons === false && nothing === false;
    if (!kept || current.length !== this.stage.children.length) put(this.stage, ...wanted, ribbons, nothing);
    const right = rightFields(state);
    const display: Display = { unit: state.unit, log: state.log, right };
    for (const [name, traces] of groups) {
      const title = groups.size > 1 ? name : '';
      this.panes.get(name)!.show(title, question.window, result.times, traces, traces.map((trace) => result.traces.indexOf(trace)), name === SWITCHES ? { unit: '', log: false, right: [] } : display);
    }
    this.stage.classList.toggle('evaluated', result.samples === null);
    this.drawFooter(question, result, took);
    this.table.show(result, state.unit, right);
    this.commands.show(result.asked.path, result.asked.parameters.map((one) => relative(one, state.interval)));
  }

  private nothing(result: Result): HTMLElement {
    const { elsewhere } = result;
    const text = 'No samples in this interval.';
    if (elsewhere === null) return h('p', { class: 'quiet' }, text);
    const show = h('button', { type: 'button', class: 'small' }, 'Show them');
    show.addEventListener('click', () => this.go(elsewhere, 'push'));
    return h('p', { class: 'quiet' }, `${text} There are some from ${format.moment(elsewhere.from)} to ${format.moment(elsewhere.to)}. `, show);
  }

  private pane(name: string): Pane {
    const switches = name === SWITCHES;
    return new Pane(name, {
      height: () => (switches ? 120 : this.panes.size > 1 ? 200 : Math.max(240, Math.min(460, window.innerHeight - 430))),
      ...(switches ? { ends: [-0.08, 1.08] as [number, number] } : {}),
      sync: 'explorer',
      onWindow: (window, gesture) => (gesture === 'drag' ? this.go(window, 'push') : this.look(window)),
      onBack: () => this.back(),
    });
  }

  private drawHeading(question: Question, result: Result): void {
    const { field, shared } = result.labels;
    const promql = this.state!.promql;
    const chips = Object.entries(shared).map(([tag, value]) => h('span', { class: 'badge' }, `${tag}=${value}`));
    const name = field ?? question.fields.map((one) => one.name).join(', ');
    const title = promql !== null ? [field ?? promql] : [`${this.state!.selector.measurement} `, h('span', { class: 'faint' }, name)];
    put(this.heading, h('h2', {}, ...title), ...chips, h('span', { class: 'window' }));
    this.sayWindow(question.window);
  }

  private sayWindow({ from, to }: Window): void {
    const target = this.heading.querySelector('.window');
    const short = to - from < 60e3;
    if (target !== null) say(target, `${format.moment(from, short)} → ${format.moment(to, short)} · ${format.duration((to - from) * 1e6)}`);
  }

  private drawFooter(question: Question, result: Result, took: number): void {
    const facts = [
      result.stepNs !== null && `step ${format.step(result.stepNs)}`,
      result.stepNs !== null && `${format.count(result.points)} points`,
      result.samples !== null && `${format.count(result.samples)} samples`,
      ...result.levels.map((level) => `up to ${format.moment(Number(level.to) / 1e6, false)} from rows of ${format.step(level.step_ns)}`),
      `${format.count(result.traces.length + result.states.length)} series`,
      `answered in ${format.duration(Math.max(took, 0.1) * 1e6)}`,
    ].filter((fact): fact is string => fact !== false);
    const links = (result.samples === null ? answers(result) : exports(question)).map(({ name, href, title, file }) => {
      const link = h('a', { href, title, target: '_blank', rel: 'noopener' }, name);
      link.addEventListener('click', (event) => {
        if (!access.hasToken()) return;
        event.preventDefault();
        api.download(href, file).catch((error: unknown) => this.fail(error));
      });
      return link;
    });
    put(this.footer, h('span', { class: 'facts' }, facts.join(' · ')), h('span', { class: 'links' }, 'Take it away: ', ...links));
  }

  /** States that series are left out. `total` is the number of sources, null if it is unknown. */
  private sayTruncated(state: ExplorerState, total: number | null): void {
    const fits = total === null ? '' : `; ${format.count(total)} source${total === 1 ? ' fits' : 's fit'}`;
    const next = Math.min(1000, state.limit < DEFAULT_LIMIT ? DEFAULT_LIMIT : state.limit * 4);
    const more = h('button', { type: 'button', class: 'small' }, `Show ${next}`);
    more.addEventListener('click', () => this.change({ ...state, limit: next }));
    put(
      this.notices,
      h('p', { class: 'notice' }, `The first ${format.count(state.limit)} series are shown${fits}. Narrow the tags`, next > state.limit ? ', or ' : '.', next > state.limit && more),
    );
  }
}

const SWITCHES = 'on or off';

/** Returns the names of the series on the second axis. */
function rightFields({ right, combination, promql, split }: ExplorerState): string[] {
  if (promql !== null || split) return [];
  return right.map((field) => (isCombined(combination) ? describe(field, combination) : field));
}

/** Returns parameters with times relative to now, as they are in the interval. */
function relative(parameters: api.Parameters, interval: Interval): api.Parameters {
  if (interval.kind === 'fixed' || parameters['from'] === undefined) return parameters;
  return { ...parameters, from: `-${formatDuration(interval.ms)}`, to: undefined };
}

/** Returns links to the values of expressions. */
function answers({ asked }: Result): ReturnType<typeof exports> {
  return asked.parameters.map((one) => ({ name: 'JSON', href: api.address(asked.path, one), title: 'The points as shown', file: 'points.json' }));
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
