// Selectors, which select the sources of a query, in the notation of the server:
// `measurement{tag="value",tag!="value",tag=~"regex",tag!~"regex",tag^="prefix"}`.

export type Operator = '=' | '!=' | '=~' | '!~' | '^=';

/**
 * Condition on a tag. `=` and `!=` take one or several values; several values are written as an alternation. The
 * other operators take one text.
 */
export interface Filter {
  tag: string;
  operator: Operator;
  values: string[];
}

export interface Selector {
  measurement: string;
  filters: Filter[];
}

export const OPERATORS: readonly Operator[] = ['=', '!=', '=~', '!~', '^='];
const SPECIAL = /[\\.+*?()|[\]{}^$#&\-~]/g;
const NAME_END = /[{}=!~^,"\s]/;

/** Pattern of the server's escapes of characters that cannot be printed. */
const UNICODE = /^\\u\{([0-9a-fA-F]{1,6})\}/;
const unprintable = (code: number): boolean => (code < 0x20 || code >= 0x7f) && code <= 0x10ffff;

const quote = (text: string): string =>
  `"${text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n').replace(/\t/g, '\\t')}"`;
const name = (text: string): string => (text === '' || NAME_END.test(text) ? quote(text) : text);
const escape = (text: string): string => text.replace(SPECIAL, '\\$&');

function condition(filter: Filter): string {
  const { operator, values } = filter;
  const tag = name(filter.tag);
  if ((operator === '=' || operator === '!=') && values.length > 1) {
    return `${tag}${operator === '=' ? '=~' : '!~'}${quote(values.map(escape).join('|'))}`;
  }
  return `${tag}${operator}${quote(values[0] ?? '')}`;
}

/** Formats a selector without the filters that have no values. */
export function format(selector: Selector): string {
  const conditions = selector.filters.filter((filter) => filter.values.length > 0).map(condition);
  const measurement = selector.measurement === '' ? '' : name(selector.measurement);
  return conditions.length > 0 ? `${measurement}{${conditions.join(',')}}` : measurement;
}

/** Returns the values of an alternation of literals; null for any other expression. */
export function literals(pattern: string): string[] | null {
  const values: string[] = [];
  let value = '';
  for (let at = 0; at < pattern.length; at += 1) {
    const c = pattern[at]!;
    if (c === '\\') {
      const next = pattern[at + 1];
      if (next === undefined || /[0-9A-Za-z<>]/.test(next)) return null;
      value += next;
      at += 1;
    } else if (c === '|') {
      values.push(value);
      value = '';
    } else if (/[.+*?()[\]{}^$]/.test(c)) {
      return null;
    } else {
      value += c;
    }
  }
  values.push(value);
  return values;
}

/** Parses a selector. Throws an error that names the position. */
export function parse(text: string): Selector {
  return new Parser(text).selector();
}

class Parser {
  private at = 0;

  constructor(private readonly text: string) {}

  selector(): Selector {
    this.space();
    const selector: Selector = { measurement: '', filters: [] };
    if (this.at < this.text.length && !this.text.startsWith('{', this.at)) selector.measurement = this.name('a measurement');
    this.space();
    if (this.take('{')) {
      for (;;) {
        this.space();
        if (this.take('}')) break;
        selector.filters.push(this.filter());
        this.space();
        if (!this.take(',') && !this.text.startsWith('}', this.at)) throw this.error('expected , or }');
      }
    }
    this.space();
    if (this.at < this.text.length) throw this.error('expected the end');
    return selector;
  }

  private filter(): Filter {
    const tag = this.name('a tag');
    this.space();
    const operator = (['=~', '!~', '!=', '^=', '='] as const).find((token) => this.take(token));
    if (operator === undefined) throw this.error('expected =, !=, =~, !~ or ^=');
    this.space();
    const value = this.text.startsWith('"', this.at) ? this.quoted() : this.bare();
    if (operator === '=~' || operator === '!~') {
      const values = literals(value);
      if (values !== null && values.length > 1) return { tag, operator: operator === '=~' ? '=' : '!=', values };
    }
    return { tag, operator, values: [value] };
  }

  private name(what: string): string {
    const found = this.text.startsWith('"', this.at) ? this.quoted() : this.bare();
    if (found === '') throw this.error(`expected ${what}`);
    return found;
  }

  private bare(): string {
    const rest = this.text.slice(this.at);
    const end = rest.search(NAME_END);
    const found = end < 0 ? rest : rest.slice(0, end);
    this.at += found.length;
    return found;
  }

  private quoted(): string {
    let found = '';
    for (let at = this.at + 1; at < this.text.length; at += 1) {
      const c = this.text[at]!;
      if (c === '"') {
        this.at = at + 1;
        return found;
      }
      const next = this.text[at + 1];
      const unicode = c === '\\' ? UNICODE.exec(this.text.slice(at)) : null;
      if (unicode !== null && unprintable(parseInt(unicode[1]!, 16))) {
        found += String.fromCodePoint(parseInt(unicode[1]!, 16));
        at += unicode[0].length - 1;
      } else if (c === '\\' && next !== undefined && '"\\nt'.includes(next)) {
        found += next === 'n' ? '\n' : next === 't' ? '\t' : next;
        at += 1;
      } else {
        found += c;
      }
    }
    throw this.error('the quoted text has no end');
  }

  private take(token: string): boolean {
    const found = this.text.startsWith(token, this.at);
    if (found) this.at += token.length;
    return found;
  }

  private space(): void {
    while (/\s/.test(this.text[this.at] ?? '')) this.at += 1;
  }

  private error(reason: string): Error {
    return new Error(`selector, character ${this.at + 1}: ${reason}`);
  }
}
