// Commands that return what a chart shows, to copy: of `seiner query` and of curl.

import * as access from '../access';
import type { Parameters } from '../api';
import { h, put, say } from '../dom';

const DEFAULT_SERVER = 'http://127.0.0.1:7670';
/** Parameters of a query with a flag of the same name. */
const FLAGS = ['fields', 'from', 'to', 'step', 'points', 'aggregate', 'limit'];

/** Returns a text as one word of a shell. */
export function word(text: string): string {
  return /^[\w.,:/@%+=-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

/** Returns the command of curl. The variable SEINER_TOKEN contains the token, if the server needs one. */
export function curl(server: string, path: string, parameters: Parameters, hasToken: boolean): string {
  const data = Object.entries(parameters).flatMap(([name, value]) => (value === undefined ? [] : [`--data-urlencode ${word(`${name}=${value}`)}`]));
  return [`curl -G ${word(server + path)}`, ...(hasToken ? ['-H "Authorization: Bearer $SEINER_TOKEN"'] : []), ...data].join(' ');
}

/** Returns the command of `seiner query`, which reads the variable SEINER_TOKEN itself. */
export function seiner(server: string, parameters: Parameters): string {
  const flags = FLAGS.flatMap((name) => (parameters[name] === undefined ? [] : [`--${name} ${word(String(parameters[name]))}`]));
  const where = server === DEFAULT_SERVER ? [] : [`--server ${word(server)}`];
  return ['seiner query', word(String(parameters['select'])), ...flags, ...where].join(' ');
}

/** List of commands below a chart, which stays open while the commands change. */
export class Commands {
  readonly root = h('details', { class: 'commands', hidden: true }, h('summary', {}, 'Commands'));
  private readonly lines = h('div');

  constructor() {
    this.root.append(this.lines);
  }

  /** Shows the commands of a query of samples, or of expressions in PromQL. */
  show(path: string, queries: readonly Parameters[]): void {
    const server = location.origin;
    const made = queries.flatMap((one) => [...(path === '/api/v1/query' ? [seiner(server, one)] : []), curl(server, path, one, access.hasToken())]);
    this.root.hidden = made.length === 0;
    while (this.lines.children.length < made.length) this.lines.append(line());
    while (this.lines.children.length > made.length) this.lines.lastElementChild!.remove();
    made.forEach((text, i) => say(this.lines.children[i]!.firstElementChild!, text));
  }

  hide(): void {
    this.root.hidden = true;
  }
}

function line(): HTMLElement {
  const code = h('code');
  const copy = h('button', { type: 'button', class: 'small' }, 'Copy');
  copy.addEventListener('click', () => {
    void navigator.clipboard?.writeText(code.textContent ?? '').then(() => {
      put(copy, 'Copied');
      window.setTimeout(() => put(copy, 'Copy'), 1500);
    });
  });
  return h('div', { class: 'command' }, code, copy);
}
