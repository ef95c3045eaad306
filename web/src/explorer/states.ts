// Series of texts: a ribbon of states over time for each series, and a list of the latest changes.

import { h, put } from '../dom';
import * as format from '../format';
import type { Window } from '../interval';
import { SERIES_COLOURS } from '../theme';
import type { States } from './query';

/** Distances of the marks below the ribbons, ms. */
const TICKS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400].map((s) => s * 1e3);
/** Maximum number of listed changes. */
const MOST_LISTED = 100;
/** Maximum number of stretches of a ribbon. More stretches would be narrower than a pixel. */
const MOST_DRAWN = 800;

export function statesView(window: Window, states: readonly States[], since: number | null): HTMLElement {
  const names = [...new Set(states.flatMap((one) => one.stretches.map((stretch) => stretch.state)))];
  const colourOf = (state: string): number => names.indexOf(state) % SERIES_COLOURS;
  const root = h('section', { class: 'pane states', 'aria-label': 'States' });
  const note = since !== null && h('p', { class: 'notice' }, `Only the newest states are shown, since ${format.moment(since)}: zoom in for the older ones.`);
  put(root, note, ...states.map((one) => ribbon(window, one, colourOf)), scale(window), list(states, colourOf));
  return root;
}

function ribbon(window: Window, states: States, colourOf: (state: string) => number): HTMLElement {
  const length = window.to - window.from;
  const band = h('div', { class: 'ribbon', role: 'img', 'aria-label': `States of ${states.label}` });
  for (const { from, to, state } of states.stretches.slice(-MOST_DRAWN)) {
    const [start, end] = [Math.max(from, window.from), Math.min(to, window.to)];
    if (end < start) continue;
    const part = h('span', { class: `s${colourOf(state)}`, title: `${state}\n${format.moment(from)}, ${format.duration((to - from) * 1e6)}` }, state);
    part.style.left = `${((start - window.from) / length) * 100}%`;
    part.style.width = `${((end - start) / length) * 100}%`;
    band.append(part);
  }
  return h('div', { class: 'ribbon-row' }, h('span', { class: 'name', title: format.tags(states.key.tags) }, states.label), band);
}

/** Returns the time axis below the ribbons. */
function scale(window: Window): HTMLElement {
  const length = window.to - window.from;
  const distance = TICKS.find((one) => length / one <= 8) ?? length;
  const begin = new Date(window.from);
  if (format.utc()) begin.setUTCHours(0, 0, 0, 0);
  else begin.setHours(0, 0, 0, 0);
  const first = begin.getTime() + Math.ceil((window.from - begin.getTime()) / distance) * distance;
  const ticks = Array.from({ length: Math.floor((window.to - first) / distance) + 1 }, (_, i) => first + i * distance);
  const texts = format.axisTimes(ticks, distance);
  return h(
    'div',
    { class: 'ribbon-scale', 'aria-hidden': 'true' },
    ...ticks.map((tick, i) => {
      const mark = h('span', {}, texts[i]);
      mark.style.left = `${((tick - window.from) / length) * 100}%`;
      return mark;
    }),
  );
}

function list(states: readonly States[], colourOf: (state: string) => number): HTMLElement {
  const changes = states.flatMap((one) => one.stretches.map((stretch) => ({ ...stretch, label: one.label })));
  changes.sort((a, b) => b.from - a.from);
  const rows = changes.slice(0, MOST_LISTED).map((change) =>
    h(
      'tr',
      {},
      h('td', {}, format.moment(change.from, true)),
      h('td', {}, change.label),
      h('td', {}, h('i', { class: `swatch s${colourOf(change.state)}` }), change.state),
      h('td', { class: 'number' }, format.duration((change.to - change.from) * 1e6)),
    ),
  );
  const head = h('tr', {}, ...['since', 'series', 'state'].map((text) => h('th', { scope: 'col' }, text)), h('th', { scope: 'col', class: 'number' }, 'lasted'));
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Changes of states' }, h('table', { class: 'legend' }, h('thead', {}, head), h('tbody', {}, ...rows)));
}
