import { expect, test } from 'vitest';
import type { Field, Status } from '../../src/api';
import { bytesPerSample, durability, lossCells, segmentsNote, Trail, warnings } from '../../src/overview/figures';
import { choose, growsOnly, PANELS, perSecond, present, select } from '../../src/overview/host';

const panel = (title: string) => PANELS.find((one) => one.title === title)!;
const numeric = (...names: string[]): Field[] => names.map((name) => ({ name, type: 'f64' }));

test('a panel prefers what is curated, and takes what there is', () => {
  expect(choose(panel('CPU'), numeric('idle', 'usage', 'user'))).toEqual({ fields: ['usage'], unit: 'percent' });
  expect(choose(panel('CPU'), numeric('user', 'system'))).toEqual({ fields: ['user', 'system'], unit: 'percent' });
  expect(choose(panel('Network'), numeric('a', 'b', 'c', 'd'))).toEqual({ fields: ['a', 'b', 'c'], unit: 'count' });
  expect(choose(panel('Load'), [{ name: 'note', type: 'string' }])).toBeNull();
});

test('the sum of all cores of this machine is preferred', () => {
  expect(select(panel('CPU'), ['0', '1', 'all'], 'anchor')).toBe('host_cpu{host="anchor",core="all"}');
  expect(select(panel('CPU'), ['0', '1'], null)).toBe('host_cpu');
});

test('what an agent writes stands in where the host has no sensors of its own', () => {
  const shown = (...there: string[]) => present(new Set(there)).map((one) => one.measurement);
  expect(shown('host_cpu', 'cpu', 'mem', 'pump')).toEqual(['host_cpu', 'mem']);
  expect(shown('pump')).toEqual([]);
  expect(present(new Set(['cpu']))[0]).toBe(present(new Set(['cpu', 'x']))[0]);
});

test('counters become rates', () => {
  expect(growsOnly([1, 2, null, 5])).toBe(true);
  expect(growsOnly([1, 2, 1, 2, 1])).toBe(false);
  expect(growsOnly([3, 3, 3])).toBe(false);
  expect(perSecond([0, 1000, 3000, 4000, 5000], [100, 200, 200, 5, 10])).toEqual([null, 100, 0, null, 5]);
});

test('bytes per sample', () => {
  expect(bytesPerSample({ engine: { sealed_block_bytes: 380, samples_sealed: 200 } })).toBe(1.9);
  expect(bytesPerSample({ engine: { sealed_block_bytes: 0, samples_sealed: 0 } })).toBeNull();
  expect(bytesPerSample({})).toBeNull();
});

test('warnings appear when there is something to warn of', () => {
  expect(warnings({})).toEqual([]);
  const sick: Status = {
    engine: { memory_used_bytes: 99, memory_budget_bytes: 100 },
    disk: { total_bytes: 100, free_bytes: 4 },
    troubles: [
      { health: 'fail', text: 'writes are rejected: sync failed' },
      { health: 'warn', text: 'data was lost: segment-00000001.log' },
      { health: 'pass', text: 'no source is in the retention class "rings"' },
    ],
  };
  const found = warnings(sick);
  expect(found.map((one) => one.severe)).toEqual([true, true, true, false, false]);
  expect(found[0]!.text).toBe('Writes are rejected: sync failed');
  expect(found[1]!.text).toContain('segment-00000001.log');
});

test('a loss tells how many rows, as far as that is known', () => {
  const loss = { file: 'segment-1.log', what: 'it is missing', rows: 1200, at_most: true, from: '1700000000000000000', to: null, found_at: '1700000001000000000' };
  const cells = lossCells(loss);
  expect(cells.slice(0, 3)).toEqual(['segment-1.log', 'it is missing', 'at most 1,200']);
  expect(cells[3]).toMatch(/^2023-11-1[45] \d\d:\d\d:20$/);
  expect(cells[4]).toBe('unknown');
  expect(lossCells({ ...loss, rows: null })[2]).toBe('unknown');
});

test('each durability says what it can lose', () => {
  expect(durability({ durability: { mode: 'interval', interval_ms: 100 } })).toMatchObject({ name: 'every 100 ms' });
  expect(durability({ durability: { mode: 'sync' } }).meaning).toContain('loses no acknowledged sample');
  expect(durability({ durability: { mode: 'memory' } }).meaning).toContain('no journal');
});

test('a trail forgets what is too old, and takes older figures before its own', () => {
  const trail = new Trail(1, 100);
  trail.push(1000, 1);
  trail.recall([950, 990, 1000], [[7, 8, 9]]);
  expect(trail.times).toEqual([950, 990, 1000]);
  expect(trail.values).toEqual([[7, 8, 1]]);
  trail.push(1060, 2);
  expect(trail.times).toEqual([990, 1000, 1060]);
  expect(trail.values).toEqual([[8, 1, 2]]);
});

test('segments that are being written are named apart from sealed ones', () => {
  expect(segmentsNote(0, 2)).toBe('0 sealed, 2 open');
  expect(segmentsNote(3, 0)).toBe('3 sealed');
});
