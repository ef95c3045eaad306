// Panel of a dashboard: a title that leads to the explorer, and the charts of its state.

import * as api from '../api';
import { h, put, say } from '../dom';
import { resolve, type Interval, type Window } from '../interval';
import { write } from '../location';
import { format } from '../selector';
import { isWritten, request } from '../explorer/request';
import { Stage } from '../explorer/stage';
import { stateOf, type PanelDocument } from './document';

const AXIS_PX = 58;
const HEIGHT_PX = 200;

export interface PanelActions {
  onWindow: (window: Window, gesture: 'drag' | 'wheel' | 'pan') => void;
  onBack: () => void;
  /** Runs a request when it is its turn. */
  queue: <T>(task: () => Promise<T>) => Promise<T>;
}

export class Panel {
  readonly root = h('section', { class: 'card panel' });
  /** Place for the controls of the editor. */
  readonly controls = h('div', { class: 'panel-controls' });
  private readonly link = h('a', { title: 'Open in the explorer' });
  private readonly notice = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly stage: Stage;
  private fields: api.Field[] | null = null;
  private flight: AbortController | null = null;

  constructor(private readonly actions: PanelActions) {
    this.stage = new Stage({ height: () => HEIGHT_PX, sync: 'dashboard', noWheel: true, onWindow: actions.onWindow, onBack: actions.onBack });
    put(this.root, h('h2', {}, this.link), this.controls, this.notice, this.stage.root);
  }

  /** Shows the frame of a panel: title, size, link. */
  frame(panel: PanelDocument, interval: Interval): void {
    const title = panel.title === '' ? 'Panel' : panel.title;
    say(this.link, title);
    this.link.setAttribute('href', write({ page: 'explorer', explorer: stateOf(panel, interval) }));
    this.root.setAttribute('aria-label', title);
    this.root.dataset['size'] = panel.size;
  }

  /** Requests and draws the data. `isLoud` reads the fields again, which a refresh does not need. */
  async load(panel: PanelDocument, interval: Interval, isLoud: boolean): Promise<void> {
    this.flight?.abort();
    const { signal } = (this.flight = new AbortController());
    this.root.setAttribute('aria-busy', 'true');
    try {
      await this.actions.queue(() => (signal.aborted ? Promise.resolve() : this.draw(panel, interval, isLoud, signal)));
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
    if (!signal.aborted) this.root.removeAttribute('aria-busy');
  }

  /** Moves the drawn data at once. */
  look(window: Window): void {
    this.stage.look(window);
  }

  stop(): void {
    this.flight?.abort();
  }

  destroy(): void {
    this.stop();
    this.stage.clear(null);
    this.root.remove();
  }

  private async draw(panel: PanelDocument, interval: Interval, isLoud: boolean, signal: AbortSignal): Promise<void> {
    const state = stateOf(panel, interval);
    if (isLoud) this.fields = null;
    const select = format(state.selector);
    if (!isWritten(state) && select === '') throw new Error('This panel has no query.');
    this.fields ??= isWritten(state) ? [] : await api.fields(select, signal);
    if (!isWritten(state) && this.fields.length === 0) throw new Error(`No source fits ${select}.`);
    const width = Math.max(100, this.stage.root.clientWidth - AXIS_PX);
    const answer = await request(state, this.fields, resolve(interval, Date.now()), width, signal);
    if (signal.aborted) return;
    put(this.notice, answer.result.truncated && h('p', { class: 'notice' }, `The first ${state.limit} series are shown.`));
    this.stage.show(state, answer, () => h('p', { class: 'quiet' }, answer.result.table === undefined ? 'No samples in this interval.' : 'No rows.'));
  }

  private fail(error: unknown): void {
    put(this.notice, h('p', { class: 'notice severe' }, error instanceof Error ? error.message : String(error)));
  }
}
