// View of the storage: how full the store is and what follows, bytes written to the device, segments, retention
// classes and the latest decisions. The letters of the papers are under Details.

import * as api from '../api';
import { h, put, say, svg, table, type Child } from '../dom';
import * as format from '../format';
import { warningsOf } from '../overview/figures';
import { bars, barAt, decisionWords, keeps, laneWords, ownPerDay, perByte, planing, segmentWords, signed, years, type Bars } from './figures';
import { outlook } from './outlook';

const POLL_MS = 3000;
const DECISIONS = 8;
/** Assumed width of the bars until the real width is known, px. */
const WIDTH = 800;

interface Row {
  root: HTMLElement;
  show: (lane: api.Lane, segments: api.Segment[], report: api.LogReport) => void;
}

function fact(label: string, title?: string): { root: HTMLElement; value: HTMLElement; note: HTMLElement } {
  const value = h('dd', { class: 'value' }, '–');
  const note = h('dd', { class: 'note' });
  return { root: h('div', { class: 'figure', title }, h('dt', {}, label), value, note), value, note };
}

function card(title: string, name: string, ...children: Child[]): HTMLElement {
  return h('section', { class: `card ${name}`, 'aria-label': title }, h('h2', {}, title), ...children);
}

const swatch = (name: string): HTMLElement => h('i', { class: `swatch ${name}` });

export class Storage {
  readonly root = h('div', { class: 'storage' });
  private readonly outlook = h('p', { class: 'outlook', 'aria-live': 'polite' }, '–');
  private readonly notices = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly used = fact('Used', 'In files, and set aside for the journal up to its maximum');
  private readonly files = fact('In files', 'Bytes of the files, including space that journal files and open segments reserved');
  private readonly allotted = fact('Set aside', 'Bytes for future files, mostly for the journal up to its maximum');
  private readonly live = fact('Samples', 'Blocks that a query can reach, in sealed segments and in those that are being written');
  private readonly budget = fact('Budget', 'The setting disk');
  private readonly usedShare = fact('U', 'Used share of the budget');
  private readonly liveShare = fact('V', 'Live share of the budget');
  private readonly mergesFrom = fact('Um', 'Share of the budget at which merging begins');
  private readonly hunger = fact('Hunger H', '(U − Um)/(Uw − Um), where Uw is the share that writers may use. No merges up to 0; no space for writers at 1');
  private readonly state = fact('Now');
  private readonly size = fact('Segments R', 'Bytes of a segment');
  private readonly bound = fact('C(Um − V)', 'Up to this R, segments of one lifetime expire as a whole');
  private readonly dead = fact('Merged Dm', 'Average dead share of the merged segments');
  private readonly hour = fact('Last hour');
  private readonly day = fact('Last day');
  private readonly start = fact('Since the start');
  private readonly device = fact('To the device', 'Bytes that all processes wrote, as the kernel counts');
  private readonly own = fact('By Seiner');
  private readonly life = fact('A new device lasts');
  private readonly sentence = h('p', { class: 'foot' });
  private readonly gauge = h('div', { class: 'gauge', role: 'meter', 'aria-label': 'Used share of the disk budget', 'aria-valuemin': 0, 'aria-valuemax': 100 });
  private readonly deviceName = h('p', { class: 'foot' });
  private readonly lanes = h('div', { class: 'lanes' });
  private readonly description = h('p', { class: 'foot description', 'aria-live': 'off' });
  private readonly classes = h('tbody');
  private readonly decisions = h('tbody');
  private readonly grounds = h('tbody');
  private readonly rows = new Map<number, Row>();
  private timer: number | undefined;
  private flight: AbortController | null = null;

  constructor() {
    put(
      this.root,
      this.outlook,
      this.notices,
      h(
        'div',
        { class: 'cards' },
        card('Space', 'wide', h('dl', { class: 'figures' }, this.used.root, this.files.root, this.allotted.root, this.live.root, this.budget.root), this.gauge),
        card('Bytes written per byte stored', '', h('dl', { class: 'figures' }, this.hour.root, this.day.root, this.start.root), h('p', { class: 'foot' }, 'Sealed blocks, and blocks that merges rewrote. The least is 1. The journal is not included.')),
        card('Flash wear, a day', '', h('dl', { class: 'figures' }, this.device.root, this.own.root, this.life.root), this.deviceName),
      ),
      card('Retention classes', '', table('Retention classes', ['Class', 'Sources', 'Keeps', 'When full', 'Count', 'Samples'], this.classes)),
      card('Last decisions', '', table('Last decisions', ['When', 'What'], this.decisions)),
      card('Segments by lifetime', 'segments-drawn', h('p', { class: 'keys' }, swatch('live'), 'live ', swatch('dead'), 'dead ', swatch('open'), 'being written'), this.lanes, this.description),
      h(
        'details',
        {},
        h('summary', {}, 'Details'),
        card('Merging', '', h('dl', { class: 'figures' }, this.state.root, this.usedShare.root, this.liveShare.root, this.mergesFrom.root, this.hunger.root, this.size.root, this.bound.root, this.dead.root), this.sentence),
        card('Figures of merging', '', table('Figures of merging', ['When', 'Policy', 'U', 'V', 'H', 'Candidates'], this.grounds)),
      ),
    );
  }

  begin(): void {
    void this.poll();
  }

  stop(): void {
    window.clearTimeout(this.timer);
    this.flight?.abort();
  }

  reload(): void {
    this.stop();
    this.begin();
  }

  private async poll(): Promise<void> {
    this.flight = new AbortController();
    const { signal } = this.flight;
    try {
      const [report, decisions] = await Promise.all([api.log(signal), api.decisions(signal)]);
      this.root.classList.remove('stale');
      this.show(report, decisions);
    } catch (error) {
      if (signal.aborted) return;
      this.root.classList.add('stale');
      put(this.notices, h('p', { class: 'notice severe' }, error instanceof Error ? error.message : String(error)));
    }
    this.timer = window.setTimeout(() => void this.poll(), POLL_MS);
  }

  private show(report: api.LogReport, decisions: api.Decision[]): void {
    put(this.notices, ...warningsOf(report.troubles).map(({ severe, text }) => h('p', { class: severe ? 'notice severe' : 'notice' }, text)));
    say(this.outlook, outlook(report, decisions));
    this.showSpace(report);
    this.showWritten(report);
    this.showLanes(report);
    put(this.classes, ...report.classes.map(classRow));
    const last = decisions.slice(-DECISIONS).reverse();
    const none = (columns: number): HTMLElement => h('tr', {}, h('td', { colspan: columns, class: 'faint' }, 'Nothing was dropped or merged since the server was started.'));
    put(this.decisions, ...last.map(decisionRow), last.length === 0 && none(2));
    put(this.grounds, ...last.map(groundsRow), last.length === 0 && none(6));
  }

  private showSpace(report: api.LogReport): void {
    const { space } = report;
    say(this.used.value, format.bytes(space.used));
    say(this.files.value, format.bytes(space.files));
    say(this.allotted.value, format.bytes(space.allotted));
    say(this.live.value, format.bytes(space.live));
    say(this.budget.value, space.budget === null ? 'none' : format.bytes(space.budget));
    say(this.usedShare.value, space.budget === null ? '–' : space.u.toFixed(3));
    say(this.liveShare.value, space.budget === null ? '–' : space.v.toFixed(3));
    say(this.mergesFrom.value, space.um.toFixed(2));
    say(this.hunger.value, space.budget === null ? '–' : signed(space.hunger));
    say(this.state.value, report.planing ? 'planing' : 'merging');
    say(this.state.note, report.policy);
    say(this.size.value, format.bytes(report.segment_bytes));
    say(this.bound.value, format.bytes(report.planing_segment_bytes));
    say(this.dead.value, report.average_dead_share === null ? '–' : report.average_dead_share.toFixed(2));
    say(this.sentence, planing(report));
    this.showGauge(space);
  }

  private showGauge({ u, v, um, budget }: api.DiskSpace): void {
    this.gauge.hidden = budget === null;
    const part = (name: string, width: number): HTMLElement => {
      const element = h('span', { class: name });
      element.style.width = `${100 * Math.min(1, Math.max(0, width))}%`;
      return element;
    };
    const mark = h('i', { class: 'mark', title: 'Merging begins here' });
    mark.style.left = `${100 * um}%`;
    put(this.gauge, part('live', v), part('used', u - v), mark);
    this.gauge.dataset['level'] = u >= 0.98 ? 'full' : 'fine';
    this.gauge.setAttribute('aria-valuenow', String(Math.round(100 * u)));
  }

  private showWritten({ written, device }: api.LogReport): void {
    for (const [one, period] of [[this.hour, written.hour], [this.day, written.day], [this.start, written.start]] as const) {
      say(one.value, perByte(period));
      say(one.note, `${format.bytes(period.stored)} stored`);
    }
    say(this.device.value, format.bytes(device?.per_day));
    say(this.own.value, format.bytes(ownPerDay(written.day)));
    say(this.life.value, device?.life_days === null || device === null ? '–' : years(device.life_days));
    say(this.life.note, device === null || device.tbw === null ? 'set device_tbw' : `rated ${format.si(device.tbw, 'B')}`);
    const pace = format.duration(written.day.seconds * 1e9);
    say(this.deviceName, device === null ? 'The kernel does not report the device of the data.' : `${device.name}, at the pace of the last ${pace}`);
  }

  private showLanes(report: api.LogReport): void {
    const by = new Map<number, api.Segment[]>();
    for (const segment of report.segments) by.set(segment.lane, [...(by.get(segment.lane) ?? []), segment]);
    const shown = report.lanes.filter((lane) => by.has(lane.id));
    for (const { id } of shown) if (!this.rows.has(id)) this.rows.set(id, this.row());
    const roots = shown.map((lane) => this.rows.get(lane.id)!.root);
    // Rows that are not moved keep the state of the pointer.
    if (roots.length !== this.lanes.children.length || roots.some((root, i) => root !== this.lanes.children[i])) put(this.lanes, ...roots);
    // The width of the bars depends on the available width, which is known after they are inserted.
    for (const lane of shown) this.rows.get(lane.id)!.show(lane, by.get(lane.id)!, report);
    if (shown.length === 0) put(this.lanes, h('p', { class: 'faint' }, 'No segment yet: everything is in memory and in the journal.'));
    if ((this.description.textContent ?? '') === '') say(this.description, shown.length === 0 ? '' : 'Point at a segment to see its figures.');
  }

  private row(): Row {
    const label = h('div', { class: 'lane-label' });
    const paths = { live: svg('path', { class: 'live' }), dead: svg('path', { class: 'dead' }), open: svg('path', { class: 'open' }) };
    const drawing = svg('svg', { role: 'img' }, paths.live, paths.dead, paths.open);
    const root = h('div', { class: 'lane' }, label, h('div', { class: 'lane-bars' }, drawing));
    let laid: { bars: Bars; segments: api.Segment[]; now: number } | null = null;
    drawing.addEventListener('pointermove', (event) => {
      if (laid === null) return;
      const box = drawing.getBoundingClientRect();
      const at = barAt(laid.bars, laid.segments.length, (event as PointerEvent).clientX - box.left, (event as PointerEvent).clientY - box.top);
      if (at !== null) say(this.description, segmentWords(laid.segments[at]!, laid.now));
    });
    const show = (lane: api.Lane, segments: api.Segment[], report: api.LogReport): void => {
      const drawn = bars(segments, report.segment_bytes, drawing.parentElement?.clientWidth || WIDTH);
      laid = { bars: drawn, segments, now: report.now };
      put(label, h('b', {}, `Lane ${lane.id}`), h('span', {}, laneWords(lane)), h('span', { class: 'faint' }, `${format.digits(100 * lane.flow_share)} % of the arriving bytes`));
      drawing.setAttribute('height', String(drawn.height));
      drawing.setAttribute('aria-label', `Lane ${lane.id}: ${segments.length} segments`);
      for (const name of ['live', 'dead', 'open'] as const) paths[name].setAttribute('d', drawn[name]);
    };
    return { root, show };
  }
}

function classRow(one: api.LogClass): HTMLElement {
  const idle = one.sources === 0;
  return h(
    'tr',
    { class: idle ? 'faint' : undefined },
    h('th', { scope: 'row' }, one.name),
    h('td', {}, one.select === '' ? 'all others' : h('code', {}, one.select)),
    h('td', {}, keeps(one)),
    h('td', {}, one.when_full === 'shed' ? `oldest dropped, priority ${one.priority}` : 'writes rejected'),
    h('td', { class: 'number' }, format.count(one.sources)),
    h('td', { class: 'number' }, format.bytes(one.live)),
  );
}

function decisionRow(decision: api.Decision): HTMLElement {
  return h('tr', {}, h('td', {}, format.moment(decision.at / 1e6).slice(11)), h('td', {}, decisionWords(decision)));
}

function groundsRow(decision: api.Decision): HTMLElement {
  return h(
    'tr',
    {},
    h('td', {}, format.moment(decision.at / 1e6).slice(11)),
    h('td', {}, decision.policy),
    ...[decision.u, decision.v, decision.hunger].map((value) => h('td', { class: 'number' }, signed(value))),
    h('td', { class: 'number' }, format.count(decision.candidates)),
  );
}
