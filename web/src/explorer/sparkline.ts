// Small curve without axes, in an image of SVG.

import { svg } from '../dom';

const WIDTH = 120;
const HEIGHT = 28;
const MARGIN = 2;

/** Returns the path of a curve through the values, which are scaled to the size of the image. */
export function path(times: readonly number[], values: readonly (number | null)[]): string {
  const known = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const [first, last] = [times[0] ?? 0, times[times.length - 1] ?? 0];
  const x = (time: number): number => (last > first ? (time - first) / (last - first) : 0.5) * WIDTH;
  const y = (value: number): number => (high > low ? 1 - (value - low) / (high - low) : 0.5) * (HEIGHT - 2 * MARGIN) + MARGIN;
  const parts: string[] = [];
  let isGap = true;
  times.forEach((time, i) => {
    const value = values[i] ?? null;
    const drawn = value !== null && Number.isFinite(value);
    if (drawn) parts.push(`${isGap ? 'M' : 'L'}${x(time).toFixed(1)} ${y(value).toFixed(1)}`);
    isGap = !drawn;
  });
  return parts.length === 1 ? `M0 ${y(known[0]!)}H${WIDTH}` : parts.join('');
}

/** Returns the image. */
export function sparkline(times: readonly number[], values: readonly (number | null)[], label: string): SVGElement {
  return svg('svg', { class: 'sparkline', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, svg('path', { d: path(times, values) }));
}
