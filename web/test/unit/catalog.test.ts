import { expect, test } from 'vitest';
import type { Summary } from '../../src/api';
import { find, overlap, stored, tagNames } from '../../src/explorer/catalog';
import { path } from '../../src/explorer/sparkline';

const summary = (measurement: string, tags: string[], fields: string[], change: Partial<Summary> = {}): Summary => ({
  measurement,
  sources: 1,
  tags: tags.map((name) => ({ name, values: 1 })),
  fields: fields.map((name) => ({ name, type: 'f64' })),
  first: '2026-01-01T00:00:00Z',
  last: '2026-01-02T00:00:00.000000001Z',
  bytes: null,
  ...change,
});
const store = [summary('host_cpu', ['core', 'host'], ['usage', 'idle']), summary('host_net', ['host'], ['rx_bytes']), summary('cpuset', [], ['value'])];
const found = (typed: string): string[] => find(store, typed).map((hit) => hit.summary.measurement);

test('a search finds measurements, tags and fields, names first', () => {
  expect(found('')).toEqual(['host_cpu', 'host_net', 'cpuset']);
  expect(found('CPU')).toEqual(['cpuset', 'host_cpu']);
  expect(found('core')).toEqual(['host_cpu']);
  expect(found('host rx')).toEqual(['host_net']);
  expect(found('core rx')).toEqual([]);
});

test('a field that was found is shown', () => {
  expect(find(store, 'host idle')[0]!.field).toBe('idle');
  expect(find(store, 'host')[0]!.field).toBeNull();
});

test('tags of most measurements come first', () => {
  expect(tagNames(store)).toEqual(['host', 'core']);
});

test('the stored times cover all measurements, with the last nanosecond', () => {
  const early = summary('old', [], [], { first: '2020-01-01T00:00:00Z', last: '2020-01-01T00:00:00Z' });
  expect(stored([...store, early])).toEqual({ from: Date.UTC(2020, 0, 1), to: Date.UTC(2026, 0, 2) + 1 });
  expect(stored([summary('none', [], [], { first: null, last: null })])).toBeNull();
  expect(overlap({ from: 0, to: 5 }, { from: 5, to: 9 })).toBe(true);
  expect(overlap({ from: 0, to: 5 }, { from: 6, to: 9 })).toBe(false);
});

test('a sparkline fills its image, and has gaps', () => {
  expect(path([0, 10, 20], [1, 3, 2])).toBe('M0.0 26.0L60.0 2.0L120.0 14.0');
  expect(path([0, 10, 20, 30], [1, null, 2, 3])).toBe('M0.0 26.0M80.0 14.0L120.0 2.0');
  expect(path([5], [7])).toBe('M0 14H120');
  expect(path([], [])).toBe('');
});
