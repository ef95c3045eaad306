// Chart of lines over time on a canvas, with shaded bands. The chart shows exactly the window that its owner
// sets. It reports the window that the reader selects; the owner then requests new data and sets the window.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { axisTimes, utc } from './format';
import { pan, sane, zoom, type Window } from './interval';
import type { Value } from './samples';
import * as theme from './theme';

export interface Line {
  label: string;
  /** Index of the line's colour. */
  colour: number;
  values: Value[];
  /** Lower and upper bounds of each value, drawn as a shade. */
  low?: Value[];
  high?: Value[];
  /** True if a value lasts until the next value. */
  stepped?: boolean;
  /** True if the line belongs to the second axis, at the right. */
  right?: boolean;
  /** True if the area below the line is filled. */
  filled?: boolean;
}

/** Vertical line at a time, with a text that the reader sees at the line. */
export interface Mark {
  time: number;
  text: string;
}

export interface Options {
  height: () => number;
  label: string;
  /** Returns the labels of the value axis. */
  axis: (splits: readonly number[]) => string[];
  /** Returns the labels of the second axis. */
  rightAxis?: (splits: readonly number[]) => string[];
  /** Returns true if the value axis is logarithmic. Values that are not positive are then not drawn. */
  isLog?: () => boolean;
  /** True if the value axis begins at zero. */
  fromZero?: boolean;
  /** Fixed ends of the value axis. */
  ends?: [number, number];
  /** True if values are bytes: the ticks of the axis are then powers of two. */
  binary?: boolean;
  /** True if the time axis shows no days, as for the last minutes. */
  clockOnly?: boolean;
  /** True if the wheel scrolls the page in place of the chart. */
  noWheel?: boolean;
  /** Key of the cursor. Charts with the same key share the cursor. */
  sync?: string;
  /** Called when the reader selects another window, with the kind of gesture. */
  onWindow?: (window: Window, gesture: 'drag' | 'wheel' | 'pan') => void;
  onBack?: () => void;
  /** Called with the index of each series' value under the cursor; null after the cursor left the chart. */
  onCursor?: (places: (number | null)[] | null) => void;
}

/** Distances of ticks on an axis of bytes: powers of two, so that labels are round. */
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);

/** Distance from the cursor up to which the text of a mark is shown, px, and the maximum number of texts. */
const NEAR_PX = 5;
const MOST_TEXTS = 8;
/** Distance of the lines of two marks, px. */
const LEAST_PX = 4;

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

export class Chart {
  private plot: uPlot | null = null;
  private shape = '';
  private lines: Line[] = [];
  private times: number[] = [];
  private marks: readonly Mark[] = [];
  private readonly tooltip = document.createElement('div');
  private view: Window = { from: 0, to: 1 };
  private readonly observer: ResizeObserver;
  private readonly stopTheme: () => void;

  constructor(
    readonly host: HTMLElement,
    private readonly options: Options,
  ) {
    host.classList.add('chart');
    host.setAttribute('role', 'img');
    host.setAttribute('aria-label', options.label);
    this.tooltip.className = 'mark-text';
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(host);
    this.stopTheme = theme.onChange(() => this.build());
  }

  get window(): Window {
    return this.view;
  }

  /** Shows these lines over this window. */
  show(window: Window, times: number[], lines: Line[], marks: readonly Mark[] = []): void {
    this.view = window;
    this.marks = marks;
    this.times = times;
    this.lines = lines;
    const shape = `${utc()}\n` + lines.map((line) => `${line.label}\0${line.colour}\0${line.low !== undefined}\0${line.stepped}\0${line.right}`).join('\n');
    if (this.plot === null || shape !== this.shape) {
      this.shape = shape;
      this.build();
      return;
    }
    this.plot.batch(() => {
      this.plot!.setData(this.data(), false);
      this.plot!.setScale('x', { min: window.from, max: window.to });
    });
  }

  /** States that the axes change, so that the next lines are drawn on new axes. */
  changed(): void {
    this.shape = '';
  }

  /** Moves the window over the present data, until new data arrives. */
  look(window: Window): void {
    this.view = window;
    this.plot?.setScale('x', { min: window.from, max: window.to });
  }

  /** Highlights one line; null ends the highlight. */
  focus(index: number | null): void {
    this.plot?.setSeries(index === null ? null : this.seriesOf(index), { focus: index !== null });
  }

  /** Shows or hides a line with its band. */
  toggle(index: number, show: boolean): void {
    const at = this.seriesOf(index);
    this.plot?.setSeries(at, { show });
    if (this.lines[index]?.low !== undefined) {
      this.plot?.setSeries(at + 1, { show });
      this.plot?.setSeries(at + 2, { show });
    }
  }

  destroy(): void {
    this.observer.disconnect();
    this.stopTheme();
    this.plot?.destroy();
    this.plot = null;
  }

  private seriesOf(line: number): number {
    let at = 1;
    for (let i = 0; i < line; i += 1) at += this.lines[i]?.low !== undefined ? 3 : 1;
    return at;
  }

  private data(): uPlot.AlignedData {
    const columns: (number | null | undefined)[][] = [];
    for (const line of this.lines) {
      columns.push(this.drawn(line.values));
      if (line.low !== undefined && line.high !== undefined) columns.push(this.drawn(line.high), this.drawn(line.low));
    }
    return [this.times, ...columns];
  }

  private isLog(): boolean {
    return this.options.isLog?.() === true;
  }

  private drawn(values: Value[]): Value[] {
    return this.isLog() ? values.map((value) => (typeof value === 'number' && value <= 0 ? null : value)) : values;
  }

  private fit(): void {
    const width = this.host.clientWidth;
    if (width > 0) this.plot?.setSize({ width, height: this.options.height() });
  }

  private build(): void {
    this.plot?.destroy();
    this.plot = null;
    const width = this.host.clientWidth;
    if (this.lines.length === 0 || width === 0) return;
    const { series, bands } = this.series();
    const { options } = this;
    const opts: uPlot.Options = {
      width,
      height: options.height(),
      ms: 1,
      tzDate: (ms) => (utc() ? uPlot.tzDate(new Date(ms), 'Etc/UTC') : new Date(ms)),
      padding: [8, 18, 0, 0],
      legend: { show: false },
      series,
      bands,
      focus: { alpha: 0.15 },
      scales: {
        x: { time: true, auto: false, range: () => [this.view.from, this.view.to] },
        ...(this.hasRight() ? { right: this.valueScale() } : {}),
        y: this.valueScale(),
      },
      axes: this.axes(),
      cursor: this.cursor(),
      hooks: {
        setSelect: [(plot) => this.selected(plot)],
        setCursor: [(plot) => this.pointed(plot)],
        draw: [(plot) => drawMarks(plot, this.marks, this.view)],
      },
    };
    this.plot = new uPlot(opts, this.data(), this.host);
    this.plot.over.append(this.tooltip);
    if (options.onWindow !== undefined) this.gestures(this.plot);
  }

  private hasRight(): boolean {
    return this.lines.some((line) => line.right === true);
  }

  private valueScale(): uPlot.Scale {
    return this.isLog() ? { distr: 3, log: 10, range: (_, low, high) => logRange(low, high) } : { range: (_, low, high) => this.valueRange(low, high) };
  }

  private valueRange(low: number | null, high: number | null): [number, number] {
    if (this.options.ends !== undefined) return this.options.ends;
    if (low === null || high === null) return [0, 1];
    if (this.options.fromZero === true) return [Math.min(0, low), high <= 0 ? 1 : high * 1.08];
    if (low === high) {
      const by = low === 0 ? 1 : Math.abs(low) * 0.1;
      return [low - by, high + by];
    }
    const by = (high - low) * 0.06;
    return [low >= 0 && low - by < 0 ? 0 : low - by, high + by];
  }

  private series(): { series: uPlot.Series[]; bands: uPlot.Band[] } {
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    const steps = uPlot.paths.stepped?.({ align: 1 });
    for (const line of this.lines) {
      const stroke = theme.seriesColour(line.colour);
      const paths = line.stepped === true && steps !== undefined ? { paths: steps } : {};
      series.push({
        label: line.label,
        stroke,
        scale: line.right === true ? 'right' : 'y',
        width: this.lines.length > 20 ? 1 : 1.5,
        ...(line.filled === true ? { fill: `${stroke}22` } : {}),
        points: { size: 5, width: 0, fill: stroke, space: 24 },
        ...paths,
      });
      if (line.low === undefined) continue;
      const edge: uPlot.Series = { scale: line.right === true ? 'right' : 'y', stroke: 'transparent', width: 0, points: { show: false }, ...paths };
      bands.push({ series: [series.length, series.length + 1], fill: `${stroke}2e` });
      series.push({ ...edge, label: `${line.label} max` }, { ...edge, label: `${line.label} min` });
    }
    return { series, bands };
  }

  private axes(): uPlot.Axis[] {
    const stroke = theme.colour('ink-faint');
    const grid = { stroke: theme.colour('grid'), width: 1 };
    const quiet = { stroke, grid, ticks: { show: false }, font: FONT };
    const right: uPlot.Axis = {
      ...quiet,
      scale: 'right',
      side: 1,
      grid: { show: false },
      space: 34,
      gap: 6,
      size: (_, values) => 14 + Math.max(26, ...(values ?? []).map((text) => text.length * 6.2)),
      values: (_, splits) => (this.options.rightAxis ?? this.options.axis)(splits),
    };
    return [
      {
        ...quiet,
        space: 76,
        size: this.options.clockOnly === true ? 24 : 38,
        gap: 6,
        values: (_, splits, _axis, _space, increment) => axisTimes(splits, increment, this.options.clockOnly !== true),
      },
      {
        ...quiet,
        space: this.options.binary === true ? 22 : 34,
        gap: 6,
        size: (_, values) => 14 + Math.max(26, ...(values ?? []).map((text) => text.length * 6.2)),
        ...(this.options.binary === true ? { incrs: BINARY } : {}),
        values: (_, splits) => this.options.axis(splits),
      },
      ...(this.hasRight() ? [right] : []),
    ];
  }

  private cursor(): uPlot.Cursor {
    const zoomable = this.options.onWindow !== undefined;
    return {
      y: false,
      drag: { x: zoomable, y: false, setScale: false, dist: 4 },
      hover: { skip: [undefined, null], prox: 60 },
      points: { size: 7, width: 2 },
      ...(this.options.sync === undefined ? {} : { sync: { key: this.options.sync } }),
      bind: {
        mousedown: (_, __, handler) => (event) => (event.shiftKey ? null : handler(event)),
        dblclick: () => () => {
          this.options.onBack?.();
          return null;
        },
      },
    };
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const window = sane({ from: plot.posToVal(left, 'x'), to: plot.posToVal(left + width, 'x') });
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.options.onWindow?.(window, 'drag');
  }

  private pointed(plot: uPlot): void {
    const places = plot.cursor.idxs;
    const inside = (plot.cursor.left ?? -1) >= 0 && places !== undefined;
    this.nameMarks(plot, inside);
    this.options.onCursor?.(inside ? this.lines.map((_, i) => places[this.seriesOf(i)] ?? null) : null);
  }

  /** Shows the texts of the marks under the cursor. */
  private nameMarks(plot: uPlot, inside: boolean): void {
    const at = plot.cursor.left ?? -1;
    const near = inside ? this.marks.filter((mark) => Math.abs(plot.valToPos(mark.time, 'x') - at) <= NEAR_PX) : [];
    this.tooltip.hidden = near.length === 0;
    if (near.length === 0) return;
    const texts = near.slice(-MOST_TEXTS).map((mark) => mark.text);
    this.tooltip.textContent = near.length > texts.length ? [`${near.length - texts.length} more`, ...texts].join('\n') : texts.join('\n');
    const isRight = at > plot.over.clientWidth / 2;
    this.tooltip.style.left = isRight ? 'auto' : `${at + 8}px`;
    this.tooltip.style.right = isRight ? `${plot.over.clientWidth - at + 8}px` : 'auto';
  }

  private gestures(plot: uPlot): void {
    const { over } = plot;
    over.addEventListener(
      'wheel',
      (event) => {
        if (this.options.noWheel === true) return;
        event.preventDefault();
        const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        const next = sideways
          ? pan(this.view, event.deltaX / over.clientWidth)
          : zoom(this.view, Math.exp(Math.max(-80, Math.min(80, event.deltaY)) * 0.004), event.offsetX / over.clientWidth);
        this.go(next, 'wheel');
      },
      { passive: false },
    );
    over.addEventListener('mousedown', (event) => {
      if (event.shiftKey && event.button === 0) this.dragPan(event.clientX, over.clientWidth);
    });
    over.addEventListener('touchstart', (event) => this.touch(event, over), { passive: true });
  }

  private go(window: Window, gesture: 'wheel' | 'pan'): void {
    this.look(window);
    this.options.onWindow?.(window, gesture);
  }

  private dragPan(startX: number, width: number): void {
    const start = this.view;
    const move = (event: MouseEvent): void => this.go(pan(start, (startX - event.clientX) / width), 'pan');
    const end = (): void => {
      document.removeEventListener('mousemove', move);
      document.removeEventListener('mouseup', end);
    };
    document.addEventListener('mousemove', move);
    document.addEventListener('mouseup', end);
  }

  /** Handles touches: one finger pans, two fingers zoom. */
  private touch(event: TouchEvent, over: HTMLElement): void {
    const start = this.view;
    const box = over.getBoundingClientRect();
    const spread = (touches: TouchList): { middle: number; width: number } => {
      const [a, b] = [touches[0]!.clientX, (touches[1] ?? touches[0]!).clientX];
      return { middle: (a + b) / 2, width: Math.max(20, Math.abs(a - b)) };
    };
    const fingers = event.touches.length;
    const begin = spread(event.touches);
    const move = (moved: TouchEvent): void => {
      if (moved.touches.length !== fingers) return;
      const now = spread(moved.touches);
      const panned = pan(start, (begin.middle - now.middle) / box.width);
      this.go(fingers < 2 ? panned : zoom(panned, begin.width / now.width, (now.middle - box.left) / box.width), 'pan');
    };
    const end = (): void => {
      over.removeEventListener('touchmove', move);
      over.removeEventListener('touchend', end);
      over.removeEventListener('touchcancel', end);
    };
    over.addEventListener('touchmove', move, { passive: true });
    over.addEventListener('touchend', end);
    over.addEventListener('touchcancel', end);
  }
}

/** Draws the marks within the window: a dashed line, with a triangle at its top. Marks close to another have its line. */
function drawMarks(plot: uPlot, marks: readonly Mark[], view: Window): void {
  const { ctx, bbox } = plot;
  const px = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = theme.colour('event');
  ctx.lineWidth = px;
  ctx.setLineDash([4 * px, 3 * px]);
  let before = -Infinity;
  for (const { time } of marks) {
    if (time < view.from || time > view.to) continue;
    const x = Math.round(plot.valToPos(time, 'x', true)) + 0.5;
    if (x - before < LEAST_PX * px) continue;
    before = x;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x - 4 * px, bbox.top);
    ctx.lineTo(x + 4 * px, bbox.top);
    ctx.lineTo(x, bbox.top + 6 * px);
    ctx.fill();
  }
  ctx.restore();
}

/** Returns the ends of a logarithmic axis: the data, widened to powers of ten. */
function logRange(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null || low <= 0) return [1, 10];
  const ends: [number, number] = [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high))];
  return ends[0] === ends[1] ? [ends[0], ends[1] * 10] : ends;
}
