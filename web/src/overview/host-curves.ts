// Curves of the host: small charts of the store's own sensors, filled by queries.

import * as api from '../api';
import { Chart, type Line } from '../chart';
import { h, put } from '../dom';
import * as format from '../format';
import type { Window } from '../interval';
import { labels } from '../labels';
import { emptyExplorer, write } from '../location';
import { align, breakAtSilence, drawable } from '../samples';
import { format as writeSelector, parse } from '../selector';
import { choose, growsOnly, perSecond, present, select, thisHost, type Choice, type Panel, type Unit } from './host';

const WINDOW_MS = 10 * 60e3;
const REFRESH_MS = 5000;
/** Interval between two searches for sensors, ms. Sensors may appear after the page was opened. */
const DISCOVER_MS = 30_000;
const MAX_LINES = 8;

const FORMATS: Record<Unit, (value: number) => string> = {
  percent: (value) => `${format.digits(value)}%`,
  bytes: (value) => format.bytes(value),
  'bytes/s': (value) => `${format.bytes(value)}/s`,
  count: (value) => format.si(value),
  celsius: (value) => `${format.digits(value)}°`,
};

/** Pattern of units in field names. Labels omit the unit, because the axis shows it. */
const UNIT = /(_bytes_per_s|_per_s|_bytes)(?= |$)/;

interface Curve {
  panel: Panel;
  choice: Choice;
  select: string;
  chart: Chart;
  key: HTMLElement;
  root: HTMLElement;
}

export class HostCurves {
  readonly root = h('div', { class: 'curves' });
  private curves: Curve[] = [];
  private discovered = 0;
  private timer: number | undefined;
  private flight: AbortController | null = null;

  start(): void {
    void this.refresh();
  }

  stop(): void {
    window.clearTimeout(this.timer);
    this.flight?.abort();
    this.discovered = 0;
  }

  private async refresh(): Promise<void> {
    this.flight = new AbortController();
    const { signal } = this.flight;
    try {
      if (Date.now() - this.discovered > DISCOVER_MS) await this.discover(signal);
      await Promise.all(this.curves.map((curve) => fill(curve, signal)));
    } catch {
      // The figures above report that the server is not reachable. The curves wait until it returns.
    }
    if (!signal.aborted) this.timer = window.setTimeout(() => void this.refresh(), REFRESH_MS);
  }

  private async discover(signal: AbortSignal): Promise<void> {
    const there = new Set(await api.measurements(signal));
    const host = await thisHost(there, signal);
    const found: Curve[] = [];
    for (const panel of present(there)) {
      const choice = choose(panel, await api.fields(everyOf(panel), signal));
      if (choice === null) continue;
      const values = panel.whole === undefined ? [] : await api.values(everyOf(panel), panel.whole.tag, signal);
      const chosen = select(panel, values, host);
      const known = this.curves.find((curve) => curve.panel === panel && curve.select === chosen && curve.choice.fields.join() === choice.fields.join());
      found.push(known ?? build(panel, choice, chosen));
    }
    for (const curve of this.curves) if (!found.includes(curve)) curve.chart.destroy();
    const changed = found.length !== this.curves.length || found.some((curve, i) => curve !== this.curves[i]);
    this.curves = found;
    if (changed) put(this.root, ...found.map((curve) => curve.root));
    this.discovered = Date.now();
  }
}

const everyOf = (panel: Panel): string => writeSelector({ measurement: panel.measurement, filters: [] });

function build(panel: Panel, choice: Choice, selector: string): Curve {
  const state = emptyExplorer();
  state.selector = parse(selector);
  state.fields = choice.fields;
  state.interval = { kind: 'last', ms: 900e3 };
  state.follow = true;
  const host = h('div', { class: 'plot' });
  const key = h('p', { class: 'key' });
  const link = h('a', { href: write({ page: 'explorer', explorer: state }), title: 'Open in the explorer' }, panel.title);
  const root = h('section', { class: 'card curve', 'aria-label': `${panel.title} of this machine` }, h('h2', {}, link), key, host);
  const chart = new Chart(host, {
    height: () => 128,
    label: `${panel.title} of this machine over the last ten minutes`,
    axis: (splits) => splits.map(FORMATS[choice.unit]),
    fromZero: choice.unit !== 'celsius',
    binary: choice.unit === 'bytes' || choice.unit === 'bytes/s',
    clockOnly: true,
    sync: 'host',
  });
  return { panel, choice, select: selector, chart, key, root };
}

async function fill(curve: Curve, signal: AbortSignal): Promise<void> {
  const now = Date.now();
  const window: Window = { from: now - WINDOW_MS, to: now };
  let answer: api.Answer<api.Stepped>;
  try {
    answer = await api.stepped(
      { select: curve.select, fields: curve.choice.fields.join(','), from: '-10m', to: 'now', points: 300, aggregate: 'mean', limit: MAX_LINES },
      signal,
    );
  } catch (error) {
    if (signal.aborted) throw error;
    curve.key.textContent = error instanceof Error ? error.message : String(error);
    return;
  }
  draw(curve, answer, window);
}

function draw(curve: Curve, answer: api.Answer<api.Stepped>, window: Window): void {
  const names = labels(answer.series).each.map((name) => name.replace(UNIT, ''));
  const columns = answer.series.map((series) => {
    const means = (series.mean ?? []).map((value) => drawable(api.number(value)));
    const rated = curve.choice.unit === 'bytes/s' && growsOnly(means) ? perSecond(series.times, means) : means;
    return breakAtSilence({ times: series.times, values: [rated] });
  });
  const { times, values } = align(columns);
  const single = values.length === 1;
  const lines: Line[] = values.map((column, i) => ({ label: names[i]!, colour: i, values: column, filled: single }));
  curve.chart.show(window, times, lines);
  const latest = (column: Line['values']): number | null => [...column].reverse().find((value) => typeof value === 'number') ?? null;
  put(
    curve.key,
    ...lines.map((line) => {
      const last = latest(line.values);
      const swatch = h('i', { class: `swatch s${line.colour % 10}` });
      return h('span', {}, swatch, `${line.label} `, h('b', {}, last === null ? '–' : FORMATS[curve.choice.unit](last)));
    }),
    answer.truncated && h('span', { class: 'faint' }, 'and more'),
  );
}
