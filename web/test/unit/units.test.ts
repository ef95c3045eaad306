import { expect, test } from 'vitest';
import { latestRows } from '../../src/explorer/table';
import type { Trace } from '../../src/explorer/query';
import * as format from '../../src/format';
import { emptyExplorer, read, write } from '../../src/location';
import { axis, withUnit } from '../../src/units';

test('values have their unit', () => {
  expect(withUnit(1536, 'bytes')).toBe('1.5 KiB');
  expect(withUnit(12_340, 'si')).toBe('12.3 k');
  expect(withUnit(0.25, 'ratio')).toBe('25 %');
  expect(withUnit(21.5, 'celsius')).toBe('21.5 °C');
  expect(withUnit(90, 'seconds')).toBe('1m 30s');
  expect(withUnit(-0.002, 'seconds')).toBe('−2 ms');
  expect(withUnit(null, 'percent')).toBe('–');
  expect(withUnit(NaN, 'percent')).toBe('NaN');
  expect(withUnit(7n, '')).toBe('7');
});

test('a logarithmic axis leaves out labels', () => {
  expect(axis([1, null, 1000], '', true)).toEqual(['1', '', '1 k']);
  expect(axis([0, 50], 'percent', false)).toEqual(['0 %', '50 %']);
  expect(axis([0, 0.5], '', false)).toEqual(['0', '0.5']);
});

test('times are read in the zone in which they are shown', () => {
  format.useUtc(true);
  expect(format.parseLocal(format.local(1_790_000_000_000))).toBe(1_790_000_000_000);
  format.useUtc(false);
  expect(format.parseLocal(format.local(1_790_000_000_000))).toBe(1_790_000_000_000);
});

test('combination, query and display are in the address', () => {
  const explorer = { ...emptyExplorer(), log: true, utc: true, unit: 'bytes' as const, right: ['used'], promql: 'sum(up)', combination: { aggregate: 'p95' as const, by: ['host'], rate: true } };
  expect(read(write({ page: 'explorer', explorer }))).toEqual({ page: 'explorer', explorer });
  expect(read('#/explorer?combine=none&unit=miles&by=host')).toEqual({ page: 'explorer', explorer: emptyExplorer() });
});

test('a table begins with the latest time that has a value', () => {
  const trace = (values: Trace['values'], odd = new Map<number, number>()): Trace => ({ key: { measurement: 'm', tags: {}, field: 'f', type: 'f64' }, label: 'f', values, odd, summary: { min: 0, max: 0, mean: 0, samples: 0, last: 0 } });
  const result = { times: [1, 2, 3, 4], traces: [trace([1, undefined, null, null]), trace([1, 2, null, null], new Map([[3, NaN]]))] };
  expect(latestRows(result, 9)).toEqual([3, 1, 0]);
  expect(latestRows(result, 2)).toEqual([3, 1]);
});
