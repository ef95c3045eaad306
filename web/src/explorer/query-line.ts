// Line for a query in PromQL, with completion. Enter evaluates the query. Errors of the server are shown below.

import * as api from '../api';
import { h, put } from '../dom';
import { completions, metrics, place, type Completion, type Place } from './complete';

/** Time without typing after which the values of a tag are requested, ms. */
const TYPING_MS = 120;
const LIST = 'query-completions';

export class QueryLine {
  readonly root = h('form', { class: 'query-line', 'aria-label': 'Query in PromQL', hidden: true });
  private readonly input = h('input', {
    type: 'text', role: 'combobox', id: 'query', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', placeholder: 'sum by (host) (rate(network_bytes[5m]))',
    'aria-controls': LIST, 'aria-expanded': 'false', 'aria-autocomplete': 'list', 'aria-describedby': 'query-error',
  });
  private readonly list = h('ul', { class: 'completions', role: 'listbox', id: LIST, 'aria-label': 'Completions', hidden: true });
  private readonly error = h('p', { class: 'query-error', id: 'query-error', role: 'alert', hidden: true });
  private summaries: Promise<api.Summary[]> | null = null;
  private flight = new AbortController();
  private shown: Completion[] = [];
  private at: Place | null = null;
  /** Index of the marked completion; -1 if Enter evaluates the query. */
  private active = -1;
  private timer: number | undefined;

  constructor(
    private readonly run: (text: string) => void,
    leave: () => void,
  ) {
    const close = h('button', { type: 'button', class: 'small', title: 'Choose measurements and fields instead' }, 'Close');
    close.addEventListener('click', leave);
    const field = h('div', { class: 'query-field' }, this.input, this.list);
    put(this.root, h('label', { for: 'query' }, 'PromQL'), field, h('button', { type: 'submit', class: 'small' }, 'Run'), close, this.error);
    this.root.addEventListener('submit', (event) => {
      event.preventDefault();
      this.close();
      this.run(this.input.value.trim());
    });
    this.input.addEventListener('input', () => {
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.complete(), TYPING_MS);
    });
    this.input.addEventListener('keydown', (event) => this.key(event));
    this.input.addEventListener('blur', () => this.close());
  }

  /** Shows a query; null hides the line. */
  show(text: string | null): void {
    const opens = this.root.hidden && text !== null;
    this.root.hidden = text === null;
    if (text !== null && text !== this.input.value.trim()) this.input.value = text;
    if (text === null) this.fail(null);
    if (opens) this.input.focus();
  }

  /** Shows the reason why the server rejected the query; null removes it. */
  fail(reason: string | null): void {
    put(this.error, reason);
    this.error.hidden = reason === null;
    this.input.setAttribute('aria-invalid', String(reason !== null));
  }

  private async complete(): Promise<void> {
    this.flight.abort();
    const { signal } = (this.flight = new AbortController());
    const at = place(this.input.value, this.input.selectionStart ?? 0);
    try {
      this.summaries ??= api.summary('');
      const summaries = await this.summaries;
      const values = at.kind === 'value' && at.tag !== '' ? await this.values(at, summaries, signal) : [];
      if (!signal.aborted && document.activeElement === this.input) this.draw(at, completions(at, summaries, values));
    } catch {
      // The query can be written without completion.
      this.summaries = null;
    }
  }

  private values(at: Place, summaries: readonly api.Summary[], signal: AbortSignal): Promise<string[]> {
    const measurement = metrics(summaries).get(at.metric)?.measurement;
    return api.values(measurement === undefined ? '{}' : JSON.stringify(measurement), at.tag, signal);
  }

  private draw(at: Place, found: Completion[]): void {
    const done = found.length === 1 && found[0]!.label === at.typed;
    if (found.length === 0 || done || (at.kind === 'name' && at.typed === '')) {
      this.close();
      return;
    }
    this.at = at;
    this.shown = found;
    this.active = -1;
    put(this.list, ...found.map((one, i) => {
      const item = h('li', { role: 'option', id: `${LIST}-${i}`, 'aria-selected': 'false' }, h('span', { class: 'name' }, one.label), h('span', { class: 'faint' }, one.note));
      item.addEventListener('mousedown', (event) => {
        event.preventDefault();
        this.take(i);
      });
      return item;
    }));
    this.list.hidden = false;
    this.input.setAttribute('aria-expanded', 'true');
    this.input.removeAttribute('aria-activedescendant');
  }

  private close(): void {
    window.clearTimeout(this.timer);
    this.flight.abort();
    this.list.hidden = true;
    this.shown = [];
    this.active = -1;
    this.input.setAttribute('aria-expanded', 'false');
    this.input.removeAttribute('aria-activedescendant');
  }

  private mark(index: number): void {
    this.list.children[this.active]?.setAttribute('aria-selected', 'false');
    this.active = index;
    const item = this.list.children[index];
    item?.setAttribute('aria-selected', 'true');
    item?.scrollIntoView({ block: 'nearest' });
    this.input.setAttribute('aria-activedescendant', `${LIST}-${index}`);
  }

  private take(index: number): void {
    const { insert } = this.shown[index]!;
    const { from } = this.at!;
    const { value, selectionStart } = this.input;
    this.input.value = value.slice(0, from) + insert + value.slice(selectionStart ?? value.length);
    this.input.setSelectionRange(from + insert.length, from + insert.length);
    this.close();
  }

  private key(event: KeyboardEvent): void {
    const last = this.shown.length - 1;
    if (event.key === ' ' && event.ctrlKey) void this.complete();
    else if (last < 0) return;
    else if (event.key === 'ArrowDown') this.mark(Math.min(last, this.active + 1));
    else if (event.key === 'ArrowUp') this.mark(Math.max(0, this.active - 1));
    else if (event.key === 'Tab' || (event.key === 'Enter' && this.active >= 0)) this.take(Math.max(0, this.active));
    else if (event.key === 'Escape') this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
