// The explorer. Its state is read from the address, and changes are written to the address.

import * as access from '../access';
import * as api from '../api';
import { h, put, say } from '../dom';
import * as format from '../format';
import { formatDuration, pan, refreshEvery, resolve, zoom, type Interval, type Window } from '../interval';
import { DEFAULT_LIMIT, emptyExplorer, type ExplorerState } from '../location';
import { format as write, type Filter } from '../selector';
import { firstLine } from '../welcome';
import { overlap, stored } from './catalog';
import { Commands } from './commands';
import { Controls, followed } from './controls';
import { Find } from './find';
import { instant } from './promql';
import { QueryLine } from './query-line';
import { exports, type Question, type Result } from './query';
import { isWritten, request, rightFields, shownFields, type Answer } from './request';
import { SqlLine } from './sql-line';
import { Stage } from './stage';
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
  private readonly sqlLine = new SqlLine(
    (sql) => this.runSql(sql),
    () => this.state !== null && this.change({ ...this.state, sql: null }),
  );
  private readonly commands = new Commands();
  private readonly table = new ValueTable();
  private readonly heading = h('div', { class: 'heading' });
  private readonly notices = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly stage = new Stage({
    height: (charts) => (charts > 1 ? 200 : Math.max(240, Math.min(460, window.innerHeight - 430))),
    sync: 'explorer',
    onWindow: (window, gesture) => (gesture === 'drag' ? this.go(window, 'push') : this.look(window)),
    onBack: () => this.back(),
  });
  private readonly footer = h('p', { class: 'footer' });
  private state: ExplorerState | null = null;
  private before: Interval[] = [];
  private flight: AbortController | null = null;
  private timer: number | undefined;
  private gestureTimer: number | undefined;
  private lastGesture = 0;
  private view: Window | null = null;
  /** Fields and number of sources of the last full query. Refreshes of a followed interval reuse them. */
  private known: { select: string; fields: api.Field[]; total: number | null } | null = null;

  /** Selection whose stored times are shown. Another unit or interval does not change them. */
  private storedOf: string | null = null;
  /** Expressions of the present chart, if it combines series. */
  private expressions: string[] = [];

  /** `save` asks for a dashboard to which the present state is added. */
  constructor(
    private readonly navigate: Navigate,
    save: (state: ExplorerState) => void,
  ) {
    this.controls = new Controls(
      {
        change: (state) => this.change(state),
        reload: () => this.reload(),
        showAll: () => void this.showAll(),
        writeQuery: () => this.writeQuery(),
        writeSql: () => this.writeSql(),
        save,
      },
      [this.line.root, this.sqlLine.root],
    );
    put(this.root, this.controls.root, h('section', { class: 'card board', 'aria-label': 'Answer' }, this.heading, this.notices, this.stage.root, this.footer, this.table.root, this.commands.root));
  }

  /** Shows a state from the address. */
  show(state: ExplorerState): void {
    const other = this.state === null || write(this.state.selector) !== write(state.selector);
    this.state = state;
    this.view = null;
    this.expressions = [];
    this.line.show(state.promql);
    this.sqlLine.show(state.sql);
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
    this.storedOf = null;
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
    this.stage.look(window_);
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
    if (isWritten(state)) {
      if (loud) this.controls.render(state, [], []);
      await this.written(state, signal);
      return;
    }
    if (state.selector.measurement === '') {
      await this.invite(state, signal);
      return;
    }
    if (loud || this.known?.select !== select) this.known = { select, fields: await api.fields(select, signal), total: null };
    // The chart does not wait for the times of the store, and does not need them.
    if (loud && this.storedOf !== select) this.sayStored(select, signal).catch(() => undefined);
    const { fields } = this.known;
    const shown = shownFields(state, fields);
    if (loud) this.controls.render(state, fields, shown);
    if (!fields.some((field) => shown.includes(field.name))) {
      this.clear(`Nothing here: no source fits ${select}${state.fields.length > 0 ? ` with the field ${state.fields.join(', ')}` : ''}.`);
      return;
    }
    const answer = await request(state, fields, this.window(), this.width(), signal);
    this.draw(state, answer);
    if (answer.result.truncated) {
      this.known.total ??= await api.sourceCount(select, signal);
      this.sayTruncated(state, this.known.total);
    }
  }

  /** Shows the answer to a query in PromQL or SQL. */
  private async written(state: ExplorerState, signal: AbortSignal): Promise<void> {
    if ((state.promql ?? state.sql) === '') {
      this.clear('Write a query, and press Enter.');
      return;
    }
    const answer = await request(state, [], this.window(), this.width(), signal);
    this.line.fail(null);
    this.sqlLine.fail(null);
    this.draw(state, answer);
    if (answer.result.truncated) this.sayTruncated(state, null);
  }

  /** Opens the line with the query of the present chart. */
  private writeQuery(): void {
    const { state } = this;
    if (state === null) return;
    const field = shownFields(state, this.known?.fields ?? [])[0];
    const plain = field === undefined || state.selector.measurement === '' ? '' : instant(state.selector, field);
    this.change({ ...state, promql: this.expressions[0] ?? plain, sql: null });
  }

  /** Opens the field for SQL with a statement for the present chart. */
  private writeSql(): void {
    const { state } = this;
    if (state === null) return;
    const { measurement } = state.selector;
    const fields = shownFields(state, this.known?.fields ?? []);
    const sql = measurement === '' || fields.length === 0 ? '' : statement(measurement, fields);
    this.change({ ...state, sql, promql: null });
  }

  private runSql(sql: string): void {
    if (this.state === null) return;
    if (sql === this.state.sql) this.reload();
    else this.change({ ...this.state, sql });
  }

  private run(promql: string): void {
    if (this.state === null) return;
    if (promql === this.state.promql) this.reload();
    else this.change({ ...this.state, promql });
  }

  private width(): number {
    return Math.max(100, this.stage.root.clientWidth - AXIS_PX);
  }

  private async invite(state: ExplorerState, signal: AbortSignal): Promise<void> {
    this.controls.render(state, [], []);
    const summaries = await api.summary('', signal);
    this.controls.showStored(stored(summaries));
    this.storedOf = null;
    this.clear('');
    if (summaries.length === 0) {
      this.stage.clear(firstLine());
      return;
    }
    this.stage.clear(this.find.root);
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
    if (signal.aborted) return;
    this.controls.showStored(range);
    this.storedOf = select;
  }

  private fail(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    const line = this.state?.promql != null ? this.line : this.state?.sql != null ? this.sqlLine : null;
    // A server without SQL answers 503, with the command that adds the program.
    const isOfLine = error instanceof api.ServerError && ((error.status >= 400 && error.status < 500) || (line === this.sqlLine && error.status === 503));
    if (line !== null && isOfLine) {
      line.fail(message);
      this.clear('');
      return;
    }
    put(this.notices, h('p', { class: 'notice severe' }, message));
  }

  private clear(message: string): void {
    put(this.heading);
    put(this.notices);
    this.stage.clear(message === '' ? null : h('p', { class: 'quiet' }, message));
    put(this.footer);
    this.table.show(null);
    this.commands.hide();
  }

  private draw(state: ExplorerState, answer: Answer): void {
    const { question, result } = answer;
    this.expressions = answer.expressions;
    put(this.notices);
    this.drawHeading(question, result);
    this.stage.show(state, answer, () => this.nothing(result));
    this.drawFooter(question, result, answer.took);
    this.table.show(result.table === undefined ? result : null, state.unit, rightFields(state));
    this.commands.show(result.asked.path, result.asked.parameters.map((one) => relative(one, state.interval)));
  }

  private nothing(result: Result): HTMLElement {
    const { elsewhere } = result;
    const text = result.table === undefined ? 'No samples in this interval.' : 'No rows.';
    if (elsewhere === null) return h('p', { class: 'quiet' }, text);
    const show = h('button', { type: 'button', class: 'small' }, 'Show them');
    show.addEventListener('click', () => this.go(elsewhere, 'push'));
    return h('p', { class: 'quiet' }, `${text} There are some from ${format.moment(elsewhere.from)} to ${format.moment(elsewhere.to)}. `, show);
  }

  private drawHeading(question: Question, result: Result): void {
    const { field, shared } = result.labels;
    const { promql, sql } = this.state!;
    const chips = Object.entries(shared).map(([tag, value]) => h('span', { class: 'badge' }, `${tag}=${value}`));
    const name = field ?? question.fields.map((one) => one.name).join(', ');
    const title = sql !== null ? [field ?? 'SQL'] : promql !== null ? [field ?? promql] : [`${this.state!.selector.measurement} `, h('span', { class: 'faint' }, name)];
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
      (result.stepNs !== null || result.table !== undefined) && `${format.count(result.points)} points`,
      result.table !== undefined && `${format.count(result.table.rows.length)} rows`,
      result.samples !== null && `${format.count(result.samples)} samples`,
      ...result.levels.map((level) => `up to ${format.moment(Number(level.to) / 1e6, false)} from rows of ${format.step(level.step_ns)}`),
      `${format.count(result.traces.length + result.states.length)} series`,
      `answered in ${format.duration(Math.max(took, 0.1) * 1e6)}`,
    ].filter((fact): fact is string => fact !== false);
    const links = (result.table !== undefined ? rowFiles(result) : result.samples === null ? answers(result) : exports(question)).map(({ name, href, title, file }) => {
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

/** Returns a statement for the rows of a measurement. */
function statement(measurement: string, fields: readonly string[]): string {
  const name = (text: string): string => (/^[a-z_][a-z0-9_]*$/.test(text) ? text : `"${text.replace(/"/g, '""')}"`);
  return `SELECT time, ${fields.map(name).join(', ')} FROM ${name(measurement)} WHERE time BETWEEN $from AND $to ORDER BY time LIMIT 1000`;
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

/** Returns links to the rows of a statement. */
function rowFiles({ asked }: Result): ReturnType<typeof exports> {
  const [parameters] = asked.parameters;
  return (['csv', 'json', 'arrow'] as const).map((form) => ({ name: form === 'arrow' ? 'Arrow' : form.toUpperCase(), href: api.address(asked.path, { ...parameters, format: form }), title: 'All rows', file: `rows.${form}` }));
}
