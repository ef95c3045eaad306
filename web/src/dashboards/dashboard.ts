// View of a dashboard: its panels over a common interval, and the editor of its document.

import { h, keepFocus, put, say } from '../dom';
import * as format from '../format';
import { formatDuration, parseDuration, QUICK, resolve, sane, type Interval, type Window } from '../interval';
import type { DashboardView } from '../location';
import * as client from './client';
import { interval, moved, nameFault, refreshOf, REFRESHES, writeAsText, type DashboardDocument, type PanelDocument } from './document';
import { panelControls } from './editor';
import { Panel } from './panel';
import { queue } from './queue';

/** Maximum number of panels that request data at the same time. The server has 16 places for queries. */
const MOST_REQUESTS = 4;
/** Time without movement after which a gesture is over, ms. */
const GESTURE_END_MS = 180;

export type Navigate = (view: DashboardView, how: 'push' | 'replace') => void;

export class Dashboard {
  readonly root = h('div', { class: 'dashboard' });
  private readonly bar = h('section', { class: 'controls', 'aria-label': 'Dashboard' });
  private readonly window = h('span', { class: 'stored' });
  private readonly notices = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly grid = h('div', { class: 'panels' });
  private readonly run = queue(MOST_REQUESTS);
  private view: DashboardView | null = null;
  private stored: client.Stored | null = null;
  /** Document in the editor; null without the editor. */
  private draft: DashboardDocument | null = null;
  private draftName = '';
  private panels: Panel[] = [];
  private drawn: PanelDocument[] = [];
  private before: (Interval | null)[] = [];
  private flight: AbortController | null = null;
  private timer: number | undefined;
  private gestureTimer: number | undefined;

  constructor(private readonly navigate: Navigate) {
    put(this.root, this.bar, this.notices, this.grid);
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.view !== null && this.timer !== undefined) this.refresh(false);
    });
  }

  /** Shows a view from the address. */
  show(view: DashboardView): void {
    const isOther = this.view?.name !== view.name;
    this.view = view;
    if (!isOther && this.stored !== null) {
      this.draw(true);
      return;
    }
    this.before = [];
    this.draft = null;
    void this.read();
  }

  stop(): void {
    this.flight?.abort();
    window.clearTimeout(this.timer);
    window.clearTimeout(this.gestureTimer);
    this.timer = undefined;
    this.view = null;
    this.stored = null;
    this.clear();
  }

  /** Reads the document and the data again. An open editor keeps its document. */
  reload(): void {
    if (this.draft === null) void this.read();
    else this.refresh(true);
  }

  private clear(): void {
    for (const panel of this.panels) panel.destroy();
    this.panels = [];
    this.drawn = [];
  }

  private async read(): Promise<void> {
    const { name } = this.view!;
    this.flight?.abort();
    const { signal } = (this.flight = new AbortController());
    try {
      this.stored = await client.read(name, signal);
      put(this.notices);
      this.draw(true);
    } catch (error) {
      if (signal.aborted) return;
      this.stored = null;
      this.clear();
      put(this.bar);
      this.fail(error, h('a', { href: '#/dashboards' }, 'All dashboards'));
    }
  }

  private get document(): DashboardDocument {
    return this.draft ?? this.stored!.document;
  }

  private get interval(): Interval {
    return this.view!.interval ?? interval(this.document.interval);
  }

  private get refreshText(): string {
    return this.view!.refresh === null ? this.document.refresh : refreshOf(this.view!.refresh);
  }

  /** Draws controls and panels, and requests the data: of all panels, or of those that are new here. */
  private draw(all: boolean): void {
    const old = new Set(this.panels);
    keepFocus(this.root, () => {
      this.drawBar();
      this.drawPanels();
    });
    if (all) {
      this.refresh(true);
      return;
    }
    this.panels.forEach((panel, i) => {
      if (!old.has(panel)) void panel.load(this.drawn[i]!, this.interval, true);
    });
  }

  private drawPanels(): void {
    const { panels } = this.document;
    // A panel whose query stays keeps its charts, wherever it moves to.
    const free = this.panels.map((panel, i) => ({ panel, query: this.drawn[i]!.query }));
    const taken = panels.map(({ query }) => {
      const at = free.findIndex((one) => one.query === query);
      return at < 0 ? null : free.splice(at, 1)[0]!.panel;
    });
    for (const { panel } of free) panel.destroy();
    this.panels = taken.map((panel) => panel ?? this.panel());
    this.drawn = [...panels];
    const roots = this.panels.map((panel) => panel.root);
    if (roots.length === 0 || roots.length !== this.grid.children.length || roots.some((root, i) => root !== this.grid.children[i])) {
      put(this.grid, ...roots, roots.length === 0 && h('p', { class: 'quiet' }, 'This dashboard has no panels. Choose data in the ', h('a', { href: '#/explorer' }, 'explorer'), ', and press Save as panel.'));
    }
    this.panels.forEach((panel, i) => {
      panel.frame(panels[i]!, this.interval);
      if (this.draft === null) put(panel.controls);
      else this.editPanel(panel, panels[i]!, i);
    });
  }

  private panel(): Panel {
    return new Panel({
      queue: this.run,
      onWindow: (window, gesture) => (gesture === 'drag' ? this.go(window) : this.look(window)),
      onBack: () => this.back(),
    });
  }

  private refresh(isLoud: boolean): void {
    window.clearTimeout(this.timer);
    this.timer = undefined;
    if (this.view === null || this.stored === null) return;
    const { from, to } = resolve(this.interval, Date.now());
    say(this.window, `${format.moment(from)} → ${format.moment(to)}`);
    const { panels } = this.document;
    const loads = this.panels.map((panel, i) => panel.load(panels[i]!, this.interval, isLoud));
    const ms = parseDuration(this.refreshText);
    if (ms === null || this.interval.kind === 'fixed') return;
    void Promise.all(loads).then(() => {
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => {
        // A hidden page requests nothing until it is shown again.
        if (!document.hidden) this.refresh(false);
      }, ms);
    });
  }

  // ---- interval

  private go(window_: Window): void {
    this.before.push(this.view!.interval);
    this.navigate({ ...this.view!, interval: { kind: 'fixed', ...sane(window_) } }, 'push');
  }

  private look(window_: Window): void {
    for (const panel of this.panels) panel.look(window_);
    window.clearTimeout(this.gestureTimer);
    this.gestureTimer = window.setTimeout(() => this.go(window_), GESTURE_END_MS);
  }

  private back(): void {
    this.navigate({ ...this.view!, interval: this.before.pop() ?? null }, 'push');
  }

  // ---- controls

  private drawBar(): void {
    const { name } = this.view!;
    const edit = button(this.draft === null ? 'Edit' : 'Discard', this.draft === null ? 'Change the panels of this dashboard' : 'Leave the editor without saving', () => this.edit(this.draft === null));
    const title = this.draft === null ? h('h2', {}, name) : this.nameInput();
    const editing = this.draft === null ? [] : [button('Save', 'Save the dashboard with the present interval and refresh', () => void this.save()), edit, button('Delete…', 'Delete this dashboard', () => void this.remove())];
    put(
      this.bar,
      h('div', { class: 'row' }, title, h('span', { class: 'spring' }), ...(this.draft === null ? [edit] : editing)),
      h('div', { class: 'row' }, this.intervals(), this.refreshChoice(), button('Reload', 'Ask again (r)', () => this.reload()), this.window),
    );
  }

  private intervals(): HTMLElement {
    const now = this.interval;
    const quick = QUICK.map(([label, ms]) => {
      const made = h('button', { type: 'button', 'aria-pressed': String(now.kind === 'last' && now.ms === ms), 'aria-label': `Last ${label}` }, label);
      made.addEventListener('click', () => this.navigate({ ...this.view!, interval: { kind: 'last', ms } }, 'push'));
      return made;
    });
    const isOther = now.kind === 'fixed' || !QUICK.some(([, ms]) => ms === now.ms);
    const other = h('button', { type: 'button', 'aria-pressed': 'true', title: 'Back to the interval of the dashboard' }, now.kind === 'last' ? formatDuration(now.ms) : 'Custom');
    other.addEventListener('click', () => this.navigate({ ...this.view!, interval: null }, 'push'));
    return h('div', { class: 'segments', role: 'group', 'aria-label': 'Interval' }, ...quick, isOther && other);
  }

  private refreshChoice(): HTMLElement {
    const now = this.refreshText;
    const all = REFRESHES.includes(now) ? REFRESHES : [...REFRESHES, now];
    const select = h('select', {}, ...all.map((one) => h('option', { value: one, selected: one === now }, one === '' ? 'off' : one)));
    select.addEventListener('change', () => this.navigate({ ...this.view!, refresh: select.value }, 'replace'));
    return h('label', { class: 'inline' }, 'Refresh', select);
  }

  // ---- editor

  private edit(begins: boolean): void {
    this.draft = begins ? { ...this.stored!.document } : null;
    this.draftName = this.view!.name;
    put(this.notices);
    this.draw(false);
    this.bar.querySelector<HTMLElement>(begins ? 'input' : 'button')?.focus();
  }

  private nameInput(): HTMLElement {
    const input = h('input', { type: 'text', value: this.draftName, maxlength: 100, spellcheck: 'false' });
    input.addEventListener('input', () => (this.draftName = input.value.trim()));
    return h('label', { class: 'inline' }, 'Name', input);
  }

  private editPanel(panel: Panel, document: PanelDocument, i: number): void {
    const { panels } = this.draft!;
    const set = (changed: PanelDocument[]): void => {
      this.draft = { ...this.draft!, panels: changed };
      this.draw(false);
    };
    panelControls(panel.controls, document, i === 0, i === panels.length - 1, {
      change: (next) => set(panels.map((one, k) => (k === i ? next : one))),
      move: (by) => set(moved(panels, i, by)),
      remove: () => set(panels.filter((_, k) => k !== i)),
    });
  }

  private async save(): Promise<void> {
    const { name } = this.view!;
    const target = this.draftName;
    const document_: DashboardDocument = { ...this.draft!, interval: writeAsText(this.interval), refresh: this.refreshText };
    try {
      const fault = nameFault(target);
      if (fault !== null) throw new Error(fault);
      const isRenamed = target !== name;
      const revision = await client.save(target, document_, isRenamed ? null : this.stored!.revision);
      if (isRenamed) await client.remove(name, this.stored!.revision);
      this.draft = null;
      this.stored = { document: document_, revision };
      put(this.notices);
      this.view = { name: target, interval: null, refresh: null };
      this.navigate(this.view, 'replace');
    } catch (error) {
      this.fail(error, client.isConflict(error) && target === name && this.newer());
    }
  }

  /** Returns a button that drops the changes, and reads the document of somebody else. */
  private newer(): HTMLElement {
    return button('Discard my changes and read it', 'Read the newer dashboard', () => {
      this.draft = null;
      void this.read();
    });
  }

  private async remove(): Promise<void> {
    const { name } = this.view!;
    if (!window.confirm(`Delete the dashboard ${name}?`)) return;
    try {
      await client.remove(name, this.stored!.revision);
      location.hash = '#/dashboards';
    } catch (error) {
      this.fail(error, client.isConflict(error) && this.newer());
    }
  }

  private fail(error: unknown, ...remedy: (HTMLElement | false)[]): void {
    put(this.notices, h('p', { class: 'notice severe' }, error instanceof Error ? error.message : String(error), ' ', ...remedy));
  }
}

function button(face: string, title: string, act: () => void): HTMLElement {
  const made = h('button', { type: 'button', class: 'small', title }, face);
  made.addEventListener('click', act);
  return made;
}
