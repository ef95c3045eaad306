// Time intervals of the explorer. Times are in ms since 1970.

/** Interval: either of a length up to now, or with fixed ends. */
export type Interval = { kind: 'last'; ms: number } | { kind: 'fixed'; from: number; to: number };

export interface Window {
  from: number;
  to: number;
}

export const QUICK: readonly [label: string, ms: number][] = [
  ['5m', 300e3],
  ['15m', 900e3],
  ['1h', 3600e3],
  ['6h', 6 * 3600e3],
  ['24h', 86400e3],
  ['7d', 7 * 86400e3],
  ['30d', 30 * 86400e3],
];

/** Length of the shortest interval, ms. */
export const MIN_MS = 1;
/** Length of the longest interval: 50 years, in ms. */
export const MAX_MS = 50 * 365 * 86400e3;

const UNITS: Record<string, number> = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 };

/** Parses a duration such as `90m`, `1h30m` or `7d`; null for other texts. */
export function parseDuration(text: string): number | null {
  if (!/^(\d+(ms|[smhdw]))+$/.test(text)) return null;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+)(ms|[smhdw])/g)) total += Number(amount) * UNITS[unit!]!;
  return total > 0 ? total : null;
}

/** Formats a duration in the largest unit that divides it: 5400000 → 90m. */
export function formatDuration(ms: number): string {
  if (ms === 86400e3) return '24h';
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms % UNITS[unit]! === 0) return `${ms / UNITS[unit]!}${unit}`;
  }
  return `${Math.round(ms)}ms`;
}

/** Returns the ends of an interval at a moment. */
export function resolve(interval: Interval, now: number): Window {
  return interval.kind === 'last' ? { from: now - interval.ms, to: now } : { from: interval.from, to: interval.to };
}

/** Returns a window with ordered ends and a length within the limits. */
export function sane(window: Window): Window {
  const from = Math.min(window.from, window.to);
  const length = Math.min(MAX_MS, Math.max(MIN_MS, Math.abs(window.to - window.from)));
  return { from, to: from + length };
}

/** Zooms around a place (0 = left end, 1 = right end). A factor below 1 zooms in. */
export function zoom(window: Window, factor: number, place = 0.5): Window {
  const length = window.to - window.from;
  const target = Math.min(MAX_MS, Math.max(MIN_MS, length * factor));
  const from = window.from + (length - target) * place;
  return { from, to: from + target };
}

/** Moves by a share of the length; positive is later. */
export function pan(window: Window, share: number): Window {
  const by = (window.to - window.from) * share;
  return { from: window.from + by, to: window.to + by };
}

/** Converts ms to decimal ns for the server. A number that the server would read as seconds gets its unit. */
export function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  const unit = whole >= 0 && whole < 50 * 86_400e3 ? 'ns' : '';
  return (BigInt(whole) * 1_000_000n + BigInt(Math.round((ms - whole) * 1e6))).toString() + unit;
}

/** Returns the time between two refreshes of a followed interval, ms. Long intervals are refreshed less often. */
export function refreshEvery(ms: number): number {
  if (ms <= 15 * 60e3) return 1000;
  if (ms <= 3600e3) return 2000;
  if (ms <= 6 * 3600e3) return 5000;
  return ms <= 86400e3 ? 15_000 : 60_000;
}
