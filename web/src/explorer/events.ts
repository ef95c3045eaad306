// Events over charts: the texts of a field, as vertical lines at their times and as a list below the charts.

import * as api from '../api';
import type { Mark } from '../chart';
import { h } from '../dom';
import * as format from '../format';
import { nanoseconds, type Window } from '../interval';
import { labels } from '../labels';
import { newestSince } from '../samples';

/** Maximum number of drawn events. More lines would hide the curves. */
export const MOST_EVENTS = 100;
/** Maximum number of series of events. */
const MOST_SERIES = 50;

/** Field of texts, and the selector of its sources. */
export interface EventSource {
  select: string;
  field: string;
}

export interface EventMark extends Mark {
  /** Series of the event. */
  label: string;
}

export interface Events {
  source: EventSource;
  /** The newest events, ascending. */
  marks: EventMark[];
  /** Number of earlier events that are not drawn. */
  leftOut: number;
  /** True if there are more series than were read. */
  truncated: boolean;
}

/** Returns the newest events of several series, ascending. */
export function newest(series: readonly api.Raw[], counted: number, most = MOST_EVENTS): Pick<Events, 'marks' | 'leftOut'> {
  const { each } = labels(series);
  const all = series.flatMap((one, i) => one.times.map((time, k) => ({ time, text: String(one.values[k]), label: each[i]! })));
  all.sort((a, b) => a.time - b.time);
  const marks = all.slice(-most);
  return { marks, leftOut: Math.max(counted, all.length) - marks.length };
}

/** Returns the times of the buckets of all series, ascending, and the number of samples in each. */
export function total(series: readonly api.Stepped[]): [times: number[], counts: number[]] {
  const counts = new Map<number, number>();
  for (const one of series) one.times.forEach((time, i) => counts.set(time, (counts.get(time) ?? 0) + (one.count?.[i] ?? 0)));
  const times = [...counts.keys()].sort((a, b) => a - b);
  return [times, times.map((time) => counts.get(time)!)];
}

/** Requests the events of a window: first their numbers, then the newest ones. */
export async function askEvents(source: EventSource, window: Window, signal: AbortSignal): Promise<Events> {
  const asked = { select: source.select, fields: source.field, from: nanoseconds(window.from), to: nanoseconds(window.to), limit: MOST_SERIES };
  const counts = await api.stepped({ ...asked, points: 500, aggregate: 'count' }, signal);
  const counted = counts.series.reduce((all, one) => all + (one.count ?? []).reduce((a, b) => a + b, 0), 0);
  if (counted === 0) return { source, marks: [], leftOut: 0, truncated: counts.truncated };
  const since = newestSince(...total(counts.series), MOST_EVENTS);
  const from = since === null ? asked.from : nanoseconds(Math.max(since, window.from));
  const answer = await api.raw({ ...asked, from }, signal);
  return { source, ...newest(answer.series.filter((one) => one.type === 'string'), counted), truncated: counts.truncated || answer.truncated };
}

/** Returns the lines to draw. */
export const marks = (events: Events | null): readonly Mark[] => events?.marks ?? [];

/** Returns a sentence about events that are not drawn; empty if all are. */
export function leftOutText({ leftOut, marks: drawn, truncated }: Events): string {
  const earlier = leftOut > 0 ? `The newest ${format.count(drawn.length)} are drawn; ${format.count(leftOut)} earlier ${leftOut === 1 ? 'event is' : 'events are'} left out. Zoom in to see them.` : '';
  const more = truncated ? `Events of the first ${MOST_SERIES} series are drawn. Narrow the selector.` : '';
  return [earlier, more].filter((text) => text !== '').join(' ');
}

/** Returns the list of events. It is open if the list that it replaces below `root` is open. */
export function eventList(events: Events, root: Element): HTMLElement {
  const { source, marks: drawn } = events;
  const rows = [...drawn].reverse().map(({ time, text, label }) => h('tr', {}, h('td', {}, format.moment(time, true)), h('td', {}, label), h('td', { class: 'event' }, text)));
  const head = h('tr', {}, ...['time', 'series', 'text'].map((text) => h('th', { scope: 'col' }, text)));
  const note = leftOutText(events);
  const summary = drawn.length === 0 ? `No events of ${source.select} ${source.field} in this interval` : `${format.count(drawn.length)} events of ${source.select} ${source.field}`;
  if (drawn.length === 0) return h('p', { class: 'events faint' }, summary);
  const wasOpen = root.querySelector<HTMLDetailsElement>('details.events')?.open === true;
  return h(
    'details',
    { class: 'events', open: wasOpen },
    h('summary', {}, h('i', { class: 'event-mark' }), summary, note !== '' && h('span', { class: 'left-out' }, note)),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Events' }, h('table', { class: 'legend', 'aria-label': 'Events' }, h('thead', {}, head), h('tbody', {}, ...rows))),
  );
}
