import { expect, test } from 'vitest';
import { formatDuration, MAX_MS, MIN_MS, nanoseconds, pan, parseDuration, QUICK, refreshEvery, resolve, sane, zoom } from '../../src/interval';

test('durations', () => {
  for (const [label, ms] of QUICK) {
    expect(parseDuration(label)).toBe(ms);
    expect(formatDuration(ms)).toBe(label);
  }
  expect(parseDuration('1h30m')).toBe(5400e3);
  expect(parseDuration('250ms')).toBe(250);
  expect(formatDuration(5400e3)).toBe('90m');
  for (const bad of ['', 'h', '1', '1y', '-1h', '1h ', '0s']) expect(parseDuration(bad)).toBeNull();
});

test('zooming keeps the place under the pointer', () => {
  const window = { from: 1000, to: 2000 };
  for (const place of [0, 0.25, 1]) {
    const at = window.from + 1000 * place;
    const near = zoom(window, 0.5, place);
    expect(near.to - near.from).toBe(500);
    expect(near.from + 500 * place).toBe(at);
  }
  expect(zoom(zoom(window, 0.5), 2)).toEqual(window);
});

test('zooming ends somewhere', () => {
  expect(zoom({ from: 0, to: 2 }, 1e-9).to - zoom({ from: 0, to: 2 }, 1e-9).from).toBe(MIN_MS);
  const far = zoom({ from: 0, to: MAX_MS / 2 }, 1e9);
  expect(far.to - far.from).toBe(MAX_MS);
});

test('panning keeps the length', () => {
  expect(pan({ from: 1000, to: 2000 }, -0.25)).toEqual({ from: 750, to: 1750 });
});

test('a window is sane', () => {
  expect(sane({ from: 5, to: 1 })).toEqual({ from: 1, to: 5 });
  expect(sane({ from: 5, to: 5 })).toEqual({ from: 5, to: 5 + MIN_MS });
});

test('an interval at a moment', () => {
  expect(resolve({ kind: 'last', ms: 300 }, 1000)).toEqual({ from: 700, to: 1000 });
  expect(resolve({ kind: 'fixed', from: 1, to: 2 }, 1000)).toEqual({ from: 1, to: 2 });
});

test('nanoseconds lose nothing to doubles', () => {
  expect(nanoseconds(1_790_000_000_123)).toBe('1790000000123000000');
  expect(nanoseconds(1_790_000_000_123.5)).toBe('1790000000123500000');
  expect(nanoseconds(-1.25)).toBe('-1250000');
  expect(nanoseconds(1_700)).toBe('1700000000ns');
});

test('a longer look-back is asked less often', () => {
  const pace = QUICK.map(([, ms]) => refreshEvery(ms));
  expect(pace).toEqual([...pace].sort((a, b) => a - b));
});
