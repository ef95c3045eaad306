// Search over measurements, tags, values of tags and fields. A result shows what is stored: sources, times, and the
// curve and the last value of a field.

import * as api from '../api';
import { h, put, say } from '../dom';
import * as format from '../format';
import { nanoseconds, type Window } from '../interval';
import { format as write, type Filter } from '../selector';
import { find, stored, tagNames, words, type Hit } from './catalog';
import { firstFields } from './query';
import { sparkline } from './sparkline';

/** Maximum number of results. */
const MOST_SHOWN = 40;
/** Maximum number of tags whose values are searched, and of values that are shown for each. */
const MOST_TAGS = 20;
const MOST_VALUES = 5;
/** Number of concurrent queries for sparklines. */
const CONCURRENT = 3;
const SPARK_POINTS = 60;
const TYPING_MS = 200;

export type Choose = (measurement: string, filters: Filter[], field: string | null, stored: Window | null) => void;

export class Find {
  readonly root = h('div', { class: 'find' });
  private readonly input = h('input', { type: 'search', placeholder: 'Measurement, tag, value or field', 'aria-label': 'Find data', autocomplete: 'off', spellcheck: 'false' });
  private readonly count = h('p', { class: 'faint', role: 'status' });
  private readonly list = h('ul', { class: 'hits', 'aria-label': 'Found' });
  private summaries: api.Summary[] = [];
  private flight = new AbortController();
  private timer: number | undefined;
  private queue: (() => Promise<void>)[] = [];

  constructor(private readonly choose: Choose) {
    put(this.root, h('h2', {}, 'Find data'), this.input, this.count, this.list);
    this.input.addEventListener('input', () => {
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.search(), TYPING_MS);
    });
  }

  /** Shows the contents of the store. */
  show(summaries: api.Summary[]): void {
    this.summaries = summaries;
    void this.search();
  }

  stop(): void {
    window.clearTimeout(this.timer);
    this.flight.abort();
  }

  private async search(): Promise<void> {
    this.flight.abort();
    const { signal } = (this.flight = new AbortController());
    const typed = this.input.value;
    const hits = find(this.summaries, typed);
    this.draw(hits, signal);
    if (words(typed).length === 0) return;
    try {
      const more = await this.ofValues(typed.trim(), signal);
      if (!signal.aborted && more.length > 0) this.draw([...hits, ...more], signal);
    } catch {
      // The results by name stay if the values cannot be searched.
    }
  }

  /** Returns a result for each measurement and each value of a tag that contains the text. */
  private async ofValues(typed: string, signal: AbortSignal): Promise<Hit[]> {
    const pattern = `(?i).*${typed.replace(/[\\.+*?()|[\]{}^$]/g, '\\$&')}.*`;
    const tags = tagNames(this.summaries).slice(0, MOST_TAGS);
    const found = await Promise.all(tags.map(async (tag) => {
      const select = write({ measurement: '', filters: [{ tag, operator: '=~', values: [pattern] }] });
      return (await api.values(select, tag, signal)).slice(0, MOST_VALUES).map((value): Filter => ({ tag, operator: '=', values: [value] }));
    }));
    const hits = await Promise.all(found.flat().slice(0, MOST_TAGS).map(async (filter) => {
      const summaries = await api.summary(write({ measurement: '', filters: [filter] }), signal);
      return summaries.map((summary): Hit => ({ summary, filters: [filter], field: null }));
    }));
    return hits.flat();
  }

  private draw(hits: readonly Hit[], signal: AbortSignal): void {
    this.queue = [];
    const shown = hits.slice(0, MOST_SHOWN);
    const more = hits.length - shown.length;
    say(this.count, hits.length === 0 ? 'Nothing matches.' : `${format.count(hits.length)} found${more > 0 ? `; the first ${MOST_SHOWN} are shown: type to narrow the list` : ''}`);
    put(this.list, ...shown.map((hit) => this.row(hit, signal)));
    for (let i = 0; i < CONCURRENT; i += 1) void this.work(signal);
  }

  private row(hit: Hit, signal: AbortSignal): HTMLElement {
    const { summary, filters } = hit;
    const range = stored([summary]);
    let field = hit.field ?? firstFields(summary.fields)[0] ?? null;
    const open = h('button', { type: 'button', class: 'name' }, summary.measurement, ...filters.map((filter) => h('span', { class: 'badge' }, `${filter.tag}=${filter.values[0]}`)));
    open.addEventListener('click', () => this.choose(summary.measurement, filters, field, range));
    const curve = h('div', { class: 'curve-cell' });
    const fields = h('select', { 'aria-label': `Field of ${summary.measurement}` }, ...summary.fields.map((one) => h('option', { value: one.name, selected: one.name === field }, one.name)));
    const load = (): void => void this.queue.push(() => this.preview(hit, field, range, curve, signal));
    fields.addEventListener('change', () => {
      field = fields.value;
      load();
      void this.work(signal);
    });
    load();
    return h('li', {}, h('div', { class: 'what' }, open, h('p', { class: 'faint' }, ...contents(summary)), h('p', { class: 'faint' }, range === null ? 'no samples' : span(range))), fields, curve);
  }

  /** Executes the waiting queries one after the other. */
  private async work(signal: AbortSignal): Promise<void> {
    for (let next = this.queue.shift(); next !== undefined && !signal.aborted; next = this.queue.shift()) {
      try {
        await next();
      } catch {
        // A result without a curve is still a result.
      }
    }
  }

  /** Shows the curve and the last value of the first series. */
  private async preview(hit: Hit, field: string | null, range: Window | null, cell: HTMLElement, signal: AbortSignal): Promise<void> {
    if (field === null || range === null) return;
    const select = write({ measurement: hit.summary.measurement, filters: hit.filters });
    const isText = hit.summary.fields.every((one) => one.name !== field || one.type === 'string');
    const question = { select, fields: field, limit: 1 };
    const curve = isText ? null : (await api.stepped({ ...question, from: nanoseconds(range.from), to: nanoseconds(range.to), points: SPARK_POINTS, aggregate: 'mean' }, signal)).series[0];
    const last = (await api.latest(question, signal)).series[0];
    if (signal.aborted || last === undefined) return;
    const [value] = last.values;
    const text = typeof value === 'string' || typeof value === 'boolean' ? String(value) : format.sample(api.exact(value));
    const of = format.tags(last.tags);
    put(
      cell,
      curve !== undefined && curve !== null && sparkline(curve.times, curve.times.map((_, i) => api.number(curve.mean?.[i])), `Curve of ${field} ${of}`),
      h('span', { class: 'last', title: `Last value of ${field} ${of}` }, text),
    );
  }
}

/** Returns the sources, fields and tags of a measurement in words. */
function contents(summary: api.Summary): string[] {
  const some = (number: number, word: string): string => `${format.count(number)} ${word}${number === 1 ? '' : 's'}`;
  const tags = summary.tags.map((tag) => `${tag.name} (${format.count(tag.values)}${tag.more === true ? ' or more' : ''})`);
  return [[some(summary.sources, 'source'), some(summary.fields.length, 'field'), ...(tags.length > 0 ? [`by ${tags.join(', ')}`] : [])].join(' · ')];
}

/** Formats the ends of a window. */
export function span(window: Window): string {
  return `${format.moment(window.from)} → ${format.moment(window.to)}`;
}
