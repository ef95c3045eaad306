// Field for a statement in SQL. Enter runs the statement, and Shift with Enter begins a line. Errors of the server
// are shown below.

import { h, put } from '../dom';

const MOST_HEIGHT_PX = 260;
const BORDERS_PX = 2;

export class SqlLine {
  readonly root = h('form', { class: 'query-line', 'aria-label': 'Query in SQL', hidden: true });
  private readonly input = h('textarea', {
    id: 'sql', rows: 1, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', 'aria-describedby': 'sql-help sql-error',
    placeholder: "SELECT time_bucket('1m', time) AS t, avg(usage) FROM host_cpu WHERE time BETWEEN $from AND $to GROUP BY t",
  });
  private readonly error = h('p', { class: 'query-error', id: 'sql-error', role: 'alert', hidden: true });

  constructor(
    private readonly run: (text: string) => void,
    leave: () => void,
  ) {
    const close = h('button', { type: 'button', class: 'small', title: 'Choose measurements and fields instead' }, 'Close');
    close.addEventListener('click', leave);
    const help = h('p', { class: 'query-help faint', id: 'sql-help' }, h('code', {}, '$from'), ' and ', h('code', {}, '$to'), ' are the ends of the interval. A time in the first column gives curves.');
    put(this.root, h('label', { for: 'sql' }, 'SQL'), h('div', { class: 'query-field' }, this.input), h('button', { type: 'submit', class: 'small' }, 'Run'), close, this.error, help);
    this.root.addEventListener('submit', (event) => {
      event.preventDefault();
      this.run(this.input.value.trim());
    });
    this.input.addEventListener('input', () => this.fit());
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.root.requestSubmit();
    });
  }

  /** Shows a statement; null hides the field. */
  show(text: string | null): void {
    const opens = this.root.hidden && text !== null;
    this.root.hidden = text === null;
    if (text !== null && text !== this.input.value.trim()) this.input.value = text;
    if (text === null) this.fail(null);
    this.fit();
    if (opens) this.input.focus();
  }

  /** Shows the reason why the server rejected the statement; null removes it. */
  fail(reason: string | null): void {
    put(this.error, reason);
    this.error.hidden = reason === null;
    this.input.setAttribute('aria-invalid', String(reason !== null));
  }

  /** Gives the field the height of its text. */
  private fit(): void {
    this.input.style.height = 'auto';
    if (this.input.scrollHeight > 0) this.input.style.height = `${Math.min(MOST_HEIGHT_PX, this.input.scrollHeight + BORDERS_PX)}px`;
  }
}
