// A button that opens a list with type-ahead, to choose one or several of many names.

import { h, put } from '../dom';

export interface Choice {
  value: string;
  note?: string;
}

export interface Loaded {
  choices: Choice[];
  /** True if more names match than are listed: typing requests a new list. */
  partial?: boolean;
}

export interface Options {
  label: string;
  /** Text of the button. */
  face: string;
  multiple: boolean;
  chosen: readonly string[];
  load: (typed: string, signal: AbortSignal) => Promise<Loaded>;
  /** Called once with the new choice, if it differs. */
  onChoose: (values: string[]) => void;
  /** Accepts typed text that is not in the list. */
  free?: boolean;
  /** Shown above the list. */
  head?: HTMLElement;
  class?: string;
}

const MOST_SHOWN = 200;
let serial = 0;

export class Picker {
  readonly button: HTMLButtonElement;
  private panel: HTMLElement | null = null;
  private readonly input: HTMLInputElement;
  private readonly list: HTMLElement;
  private readonly chosen: Set<string>;
  private loaded: Loaded = { choices: [] };
  private shown: Choice[] = [];
  private active = 0;
  private flight: AbortController | null = null;
  private loading = false;
  /** True if Enter was pressed before the list arrived. */
  private wanted = false;
  private timer: number | undefined;
  private readonly id = `picker-${(serial += 1)}`;

  constructor(private readonly options: Options) {
    this.chosen = new Set(options.chosen);
    this.button = h('button', { type: 'button', class: `picker ${options.class ?? ''}`, 'aria-haspopup': 'listbox', 'aria-expanded': 'false', 'aria-label': `${options.label}: ${options.face}` }, options.face);
    this.button.addEventListener('click', () => (this.panel === null ? this.open() : this.close(true)));
    this.input = h('input', {
      type: 'text', role: 'combobox', placeholder: options.free === true ? 'Type or choose…' : 'Search…', autocomplete: 'off', spellcheck: 'false',
      'aria-label': options.label, 'aria-controls': this.id, 'aria-expanded': 'true', 'aria-autocomplete': 'list',
    });
    this.list = h('ul', { role: 'listbox', id: this.id, 'aria-label': options.label, 'aria-multiselectable': options.multiple ? 'true' : null });
    this.input.addEventListener('input', () => this.typed());
    this.input.addEventListener('keydown', (event) => this.key(event));
  }

  open(): void {
    if (this.panel !== null) return;
    const done = h('button', { type: 'button', class: 'small' }, 'Done');
    done.addEventListener('click', () => this.close(true));
    this.panel = h('div', { class: 'popover' }, this.options.head, h('div', { class: 'search' }, this.input, this.options.multiple && done), this.list);
    document.body.append(this.panel);
    this.place();
    this.button.setAttribute('aria-expanded', 'true');
    document.addEventListener('mousedown', this.outside);
    window.addEventListener('resize', this.place);
    this.input.value = '';
    this.input.focus();
    void this.load();
  }

  /** Closes the list. `take` is true to apply the choice, false to discard it. */
  close(take: boolean): void {
    if (this.panel === null) return;
    this.flight?.abort();
    this.loading = this.wanted = false;
    window.clearTimeout(this.timer);
    document.removeEventListener('mousedown', this.outside);
    window.removeEventListener('resize', this.place);
    this.panel.remove();
    this.panel = null;
    this.button.setAttribute('aria-expanded', 'false');
    this.button.focus();
    const values = [...this.chosen];
    const before = this.options.chosen;
    if (take && (values.length !== before.length || values.some((value) => !before.includes(value)))) this.options.onChoose(values);
  }

  private readonly outside = (event: MouseEvent): void => {
    const target = event.target as Node;
    if (!this.panel?.contains(target) && !this.button.contains(target)) this.close(true);
  };

  private readonly place = (): void => {
    if (this.panel === null) return;
    const at = this.button.getBoundingClientRect();
    const width = Math.min(320, document.documentElement.clientWidth - 16);
    this.panel.style.width = `${width}px`;
    this.panel.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8)) + window.scrollX}px`;
    this.panel.style.top = `${at.bottom + 4 + window.scrollY}px`;
  };

  private async load(): Promise<void> {
    this.flight?.abort();
    const flight = new AbortController();
    this.flight = flight;
    this.loading = true;
    if (this.loaded.choices.length === 0) put(this.list, h('li', { class: 'quiet' }, 'Loading…'));
    try {
      this.loaded = await this.options.load(this.input.value, flight.signal);
      this.loading = false;
      this.filter();
      if (this.wanted) this.choose(this.active);
      this.wanted = false;
    } catch (error) {
      if (flight.signal.aborted) return;
      this.loading = this.wanted = false;
      put(this.list, h('li', { class: 'quiet error' }, error instanceof Error ? error.message : String(error)));
    }
  }

  private typed(): void {
    window.clearTimeout(this.timer);
    this.filter();
    if (this.loaded.partial === true) this.timer = window.setTimeout(() => void this.load(), 150);
  }

  private filter(): void {
    const typed = this.input.value.toLowerCase();
    const starts = this.loaded.choices.filter((choice) => choice.value.toLowerCase().startsWith(typed));
    const holds = this.loaded.choices.filter((choice) => choice.value.toLowerCase().includes(typed) && !starts.includes(choice));
    const gone = [...this.chosen].filter((value) => typed === '' && !this.loaded.choices.some((choice) => choice.value === value));
    this.shown = [...gone.map((value) => ({ value })), ...starts, ...holds].slice(0, MOST_SHOWN);
    if (this.options.free === true && this.input.value !== '' && !this.shown.some((choice) => choice.value === this.input.value)) {
      this.shown.unshift({ value: this.input.value, note: 'as typed' });
    }
    this.active = 0;
    this.draw();
  }

  private draw(): void {
    const items = this.shown.map((choice, i) => {
      const on = this.chosen.has(choice.value);
      const item = h('li', { role: 'option', id: `${this.id}-${i}`, 'aria-selected': on ? 'true' : 'false', class: i === this.active ? 'active' : '' },
        h('span', { class: 'tick', 'aria-hidden': 'true' }, on ? '✓' : ''), h('span', { class: 'name' }, choice.value === '' ? '(empty)' : choice.value), choice.note !== undefined && h('span', { class: 'faint' }, choice.note));
      item.addEventListener('mousedown', (event) => event.preventDefault());
      item.addEventListener('click', () => this.choose(i));
      return item;
    });
    const more = this.loaded.partial === true || this.shown.length === MOST_SHOWN;
    put(this.list, ...items, items.length === 0 && h('li', { class: 'quiet' }, 'Nothing matches'), more && h('li', { class: 'quiet' }, 'There are more: type to narrow the list'));
    this.input.setAttribute('aria-activedescendant', this.shown.length > 0 ? `${this.id}-${this.active}` : '');
    this.list.children[this.active]?.scrollIntoView({ block: 'nearest' });
  }

  private choose(at: number): void {
    const value = this.shown[at]?.value;
    if (value === undefined) return;
    if (!this.options.multiple) {
      this.chosen.clear();
      this.chosen.add(value);
      this.close(true);
      return;
    }
    if (!this.chosen.delete(value)) this.chosen.add(value);
    this.active = at;
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    event.stopPropagation();
    const last = this.shown.length - 1;
    if (event.key === 'ArrowDown') this.active = Math.min(last, this.active + 1);
    else if (event.key === 'ArrowUp') this.active = Math.max(0, this.active - 1);
    else if (event.key === 'Enter') {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) this.close(true);
      // Enter was pressed before the list arrived. The choice is made when it arrives.
      else if (this.loading) this.wanted = true;
      else this.choose(this.active);
      return;
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      event.preventDefault();
      this.close(event.key === 'Tab' || this.options.multiple);
      return;
    } else return;
    event.preventDefault();
    this.draw();
  }
}
