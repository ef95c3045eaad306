// Live state of the store: figures of /status, updated every second, and curves of the host.

import * as api from '../api';
import { Chart } from '../chart';
import { body, h, put, say, table, type Child } from '../dom';
import * as format from '../format';
import { drawable } from '../samples';
import { firstLine } from '../welcome';
import { AlertsCard } from './alerts';
import { ClusterCard } from './cluster';
import { bytesPerSample, durability, lossCells, segmentsNote, Trail, warnings, type Warning } from './figures';
import { OWN_SENSORS } from './host';
import { HostCurves } from './host-curves';

const POLL_MS = 1000;
const TRAIL_MS = 5 * 60e3;

/** Creates a labelled figure that can be updated. */
function figure(label: string, title?: string, swatch?: number): { root: HTMLElement; value: HTMLElement; note: HTMLElement } {
  const value = h('dd', { class: 'value' }, '–');
  const note = h('dd', { class: 'note' });
  return { root: h('div', { class: 'figure', title }, h('dt', {}, swatch !== undefined && h('i', { class: `swatch s${swatch}` }), label), value, note), value, note };
}

/** Creates a bar for a percentage. It shows a warning near 100 %. */
function meter(label: string): { root: HTMLElement; set: (percent: number | null) => void } {
  const fill = h('span', { class: 'fill' });
  const root = h('div', { class: 'meter', role: 'meter', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': 100 }, fill);
  const set = (percent: number | null): void => {
    fill.style.width = `${percent ?? 0}%`;
    root.dataset['level'] = percent !== null && percent >= 95 ? 'full' : percent !== null && percent >= 80 ? 'high' : 'fine';
    root.setAttribute('aria-valuenow', String(Math.round(percent ?? 0)));
  };
  return { root, set };
}

function card(title: string, name: string, ...children: Child[]): HTMLElement {
  return h('section', { class: `card ${name}`, 'aria-label': title }, h('h2', {}, title), ...children);
}

export class Overview {
  readonly root = h('div', { class: 'overview' });
  private readonly notices = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly losses = h('div', { class: 'losses' });
  private readonly empty = h('div');
  private readonly alerts = new AlertsCard();
  private readonly cluster = new ClusterCard();
  private readonly trail = new Trail(2, TRAIL_MS);
  private readonly curves = new HostCurves();
  private readonly figures = {
    rows: figure('Rows', undefined, 1),
    samples: figure('Samples', undefined, 0),
    unsynced: figure('Samples'),
    unsyncedBytes: figure('Bytes'),
    unsyncedAge: figure('Oldest'),
    memory: figure('Used'),
    budget: figure('Budget'),
    resident: figure('Process', 'Resident memory of the whole process'),
    segments: figure('Segments', 'Open ones are being written'),
    journal: figure('Journal'),
    free: figure('Free'),
    sources: figure('Sources', 'A source is a measurement with its tags'),
    series: figure('Series', 'A series is one field of a source'),
    accepted: figure('Samples accepted', 'Since the store was opened'),
    blocks: figure('Blocks sealed', 'Since the store was opened'),
    density: figure('Bytes per sample', 'On disk, over all blocks sealed since the store was opened'),
    buffered: figure('Rows in buffers', 'Accepted, and not in a block yet'),
    rejected: figure('Lines rejected', 'Since the server was started'),
    flight: figure('Requests in flight'),
  };
  private readonly memoryMeter = meter('Memory used of the budget');
  private readonly diskMeter = meter('Disk used');
  private readonly mode = h('span', { class: 'badge' });
  private readonly meaning = h('span', { class: 'bubble', role: 'tooltip', id: 'durability-meaning' });
  private readonly about = h('p', { class: 'about' });
  private readonly sparkline: Chart;
  private timer: number | undefined;
  private lost: number | null = null;
  /** True if the store contains only the host's own sensors; null until known. */
  private unwritten: boolean | null = null;
  private flight: AbortController | null = null;
  /** Shown losses as JSON. The table is rebuilt only on a change, because text in a rebuilt table cannot be selected. */
  private lossesShown = '[]';

  constructor() {
    const spark = h('div', { class: 'plot' });
    put(this.root, this.notices, this.losses, this.empty, this.alerts.root, this.cluster.root, this.top(spark), this.facts(), this.curves.root, this.about);
    this.sparkline = new Chart(spark, {
      height: () => 132,
      clockOnly: true,
      label: 'Samples per second over the last five minutes',
      axis: format.axisValues,
      fromZero: true,
    });
  }

  start(): void {
    void this.recall();
    void this.poll();
    this.curves.start();
  }

  stop(): void {
    window.clearTimeout(this.timer);
    this.flight?.abort();
    this.curves.stop();
  }

  reload(): void {
    this.stop();
    this.start();
  }

  private top(spark: HTMLElement): HTMLElement {
    const f = this.figures;
    const question = h('button', { class: 'question', type: 'button', 'aria-label': 'What is the durability?', 'aria-describedby': 'durability-meaning' }, '?');
    return h(
      'div',
      { class: 'cards' },
      card('Ingest', 'wide', h('div', { class: 'ingest' }, h('dl', { class: 'figures large' }, f.samples.root, f.rows.root), spark)),
      card(
        'Not yet synced',
        'unsynced',
        h('dl', { class: 'figures' }, f.unsynced.root, f.unsyncedBytes.root, f.unsyncedAge.root),
        h('p', { class: 'foot tip' }, 'Durability ', this.mode, ' ', question, this.meaning),
      ),
      card('Memory', 'memory', h('dl', { class: 'figures' }, f.memory.root, f.budget.root, f.resident.root), this.memoryMeter.root),
      card('Disk', 'disk', h('dl', { class: 'figures' }, f.segments.root, f.journal.root, f.free.root), this.diskMeter.root),
    );
  }

  private facts(): HTMLElement {
    const f = this.figures;
    const all = [f.sources, f.series, f.accepted, f.buffered, f.blocks, f.density, f.rejected, f.flight];
    return h('section', { class: 'card facts', 'aria-label': 'Counts' }, h('dl', { class: 'figures strip' }, ...all.map((one) => one.root)));
  }

  private async poll(): Promise<void> {
    this.flight = new AbortController();
    const { signal } = this.flight;
    try {
      const status = await api.status(signal);
      this.lost = null;
      this.show(status);
      void this.alerts.show(signal);
    } catch (error) {
      if (signal.aborted) return;
      this.lost ??= Date.now();
      this.root.classList.add('stale');
      const message = error instanceof Error ? error.message : String(error);
      this.notify([{ severe: true, text: `${message} No figures since ${format.moment(this.lost).slice(11)}; trying again every second.` }]);
    }
    this.timer = window.setTimeout(() => void this.poll(), POLL_MS);
  }

  /** Starts the curve with the samples that the store recorded about itself, if there are any. */
  private async recall(): Promise<void> {
    if (this.trail.times.length > 0) return;
    try {
      const answer = await api.stepped({ select: 'seiner', fields: 'rows_per_s,samples_per_s', from: '-5m', to: 'now', points: 150, aggregate: 'mean', limit: 2 });
      const [rows, samples] = ['rows_per_s', 'samples_per_s'].map((field) => answer.series.find((series) => series.field === field));
      if (rows === undefined || samples === undefined || rows.times.length !== samples.times.length) return;
      this.trail.recall(samples.times, [samples, rows].map((series) => (series.mean ?? []).map((value) => drawable(api.number(value)))));
    } catch {
      // Without recorded samples, the curve begins now.
    }
  }

  private notify(found: Warning[]): void {
    put(this.notices, ...found.map(({ severe, text }) => h('p', { class: severe ? 'notice severe' : 'notice' }, text)));
  }

  private show(status: api.Status): void {
    this.root.classList.remove('stale');
    this.notify(warnings(status));
    this.showLosses(status.losses ?? []);
    void this.cluster.show(status.cluster);
    this.showIngest(status);
    this.showFigures(status);
    this.showCounts(status);
    const started = status.uptime_s === undefined ? '' : `up ${format.duration(status.uptime_s * 1e9)}`;
    say(this.about, [`Seiner ${status.version ?? ''}`.trim(), started, status.data_directory ?? ''].filter((part) => part !== '').join(' · '));
  }

  private showLosses(losses: api.Loss[]): void {
    const text = JSON.stringify(losses);
    if (text === this.lossesShown) return;
    this.lossesShown = text;
    const heads = ['File', 'What', 'Rows', 'From', 'To', 'Found'];
    put(this.losses, losses.length > 0 && card('Losses', '', table('Losses', heads, body(losses.map(lossCells)))));
  }

  private showIngest(status: api.Status): void {
    const { rows_per_s: rows, samples_per_s: samples } = status.ingest ?? {};
    const f = this.figures;
    say(f.rows.value, rate(rows));
    say(f.samples.value, rate(samples));
    say(f.rows.note, 'per second');
    say(f.samples.note, 'per second');
    const now = Date.now();
    this.trail.push(now, samples ?? null, rows ?? null);
    this.sparkline.show({ from: now - TRAIL_MS, to: now }, [...this.trail.times], [
      { label: 'samples/s', colour: 0, values: [...this.trail.values[0]!], filled: true },
      { label: 'rows/s', colour: 1, values: [...this.trail.values[1]!] },
    ]);
    void this.welcome(status);
  }

  /** Shows how to write samples, if only the host's own sensors have written so far. */
  private async welcome(status: api.Status): Promise<void> {
    const quiet = (status.ingest?.rows ?? status.engine?.samples_accepted ?? 0) === 0;
    if (quiet && this.unwritten === null) {
      this.unwritten = false;
      const names = await api.measurements().catch(() => null);
      this.unwritten = names !== null && names.every((name) => OWN_SENSORS.has(name));
    }
    const show = quiet && this.unwritten === true;
    if (show !== this.empty.hasChildNodes()) put(this.empty, show && firstLine((status.engine?.sources ?? 0) > 0));
  }

  private showFigures(status: api.Status): void {
    const { engine = {}, disk = {} } = status;
    const f = this.figures;
    say(f.unsynced.value, format.count(engine.unsynced_samples));
    say(f.unsyncedBytes.value, format.bytes(engine.unsynced_bytes));
    say(f.unsyncedAge.value, format.duration(engine.unsynced_age_ns));
    const kept = durability(status);
    say(this.mode, kept.name);
    say(this.meaning, kept.meaning);
    say(f.memory.value, format.bytes(engine.memory_used_bytes));
    say(f.memory.note, `${format.bytes(engine.dictionary_bytes)} names`);
    say(f.budget.value, format.bytes(engine.memory_budget_bytes));
    say(f.budget.note, percent(format.share(engine.memory_used_bytes, engine.memory_budget_bytes), 'used'));
    say(f.resident.value, format.bytes(status.process?.rss_bytes));
    this.memoryMeter.set(format.share(engine.memory_used_bytes, engine.memory_budget_bytes));
    say(f.segments.value, format.bytes((engine.segment_bytes ?? 0) + (engine.open_segment_bytes ?? 0)));
    say(f.segments.note, segmentsNote(engine.segments, engine.open_segments));
    say(f.journal.value, format.bytes(engine.journal_bytes));
    say(f.journal.note, `in ${format.count(engine.journal_files)} file${engine.journal_files === 1 ? '' : 's'}`);
    say(f.free.value, format.bytes(disk.free_bytes));
    say(f.free.note, `of ${format.bytes(disk.total_bytes)}`);
    const free = format.share(disk.free_bytes, disk.total_bytes);
    this.diskMeter.set(free === null ? null : 100 - free);
  }

  private showCounts(status: api.Status): void {
    const engine = status.engine ?? {};
    const f = this.figures;
    say(f.sources.value, format.count(engine.sources));
    say(f.series.value, format.count(engine.series));
    say(f.accepted.value, format.count(engine.samples_accepted));
    say(f.buffered.value, format.count(engine.buffered_rows));
    say(f.blocks.value, format.count(engine.blocks_sealed));
    const density = bytesPerSample(status);
    say(f.density.value, density === null ? '–' : density.toFixed(2));
    const rejected = status.ingest?.rejected_lines ?? 0;
    say(f.rejected.value, format.count(rejected));
    f.rejected.root.classList.toggle('alarming', rejected > 0);
    say(f.flight.value, format.count(status.ingest?.requests_in_flight));
  }
}

const rate = (value: number | undefined): string =>
  value === undefined ? '–' : value < 1e5 ? format.count(value) : format.si(value);
const percent = (value: number | null, word: string): string => (value === null ? '' : `${format.digits(value)} % ${word}`);
