import { expect, test } from 'vitest';
import type { Decision, LogClass, LogReport, Period } from '../../src/api';
import { outlook } from '../../src/storage/outlook';

const GIB = 2 ** 30;
const period = (stored: number, seconds = 86_400): Period => ({ seconds, stored, merged: 0, journal: 0, segments: 0, process: 0, device: null, per_byte: 1 });
const one = (change: Partial<LogClass> = {}): LogClass => ({ name: 'default', select: '', age_ns: null, rows: null, bytes: null, priority: 1, when_full: 'refuse', sources: 5, live: 1, hidden_before: null, ...change });

/** A store of 100 GiB with these used bytes, which gets `daily` bytes a day. */
function store(used: number, daily: number, classes: LogClass[] = [one()], change: Partial<LogReport> = {}, decisions: Decision[] = []): string {
  const budget = 100 * GIB;
  const space = { budget, used, files: used, allotted: 0, live: used, reserved: 0, u: used / budget, um: 0.95, v: used / budget, hunger: 0 };
  const written = { hour: period(0), day: period(daily), start: period(daily) };
  return outlook({ now: 2 * 86_400e9, space, written, classes, planing: true, ...change } as LogReport, decisions);
}

test('a store that grows says when it is full, and what to do if that is soon', () => {
  expect(store(7 * GIB, GIB / 4)).toBe('7 % full; at this pace full in 352d; nothing to do.');
  expect(store(50 * GIB, 5 * GIB)).toBe('50 % full; at this pace full in 9d; raise disk, or set a retention class: when it is full, writes are rejected.');
  expect(store(50 * GIB, 5 * GIB, [one({ when_full: 'shed', name: 'raw' }), one({ sources: 0, when_full: 'shed', name: 'unused' })])).toContain('the oldest samples of raw are dropped');
});

test('rules that keep the store below its budget are enough', () => {
  expect(store(7 * GIB, GIB, [one({ age_ns: 30 * 86_400e9 })])).toBe('7 % full; the retention classes keep it below 30 %; nothing to do.');
  expect(store(7 * GIB, GIB, [one({ bytes: 20 * GIB }), one({ bytes: GIB })])).toContain('below 21 %');
  // The class with the other sources keeps them for ever.
  expect(store(7 * GIB, GIB / 4, [one({ age_ns: 86_400e9 }), one()])).toContain('full in');
  expect(store(7 * GIB, GIB / 4, [one({ rows: 10 })])).toContain('full in');
});

test('a nearly full store that frees as much as arrives is as planned', () => {
  const freed = (at: number): Decision => ({ at, drop: [1], merge: [] }) as unknown as Decision;
  expect(store(93 * GIB, 50 * GIB, [one({ when_full: 'shed' })], {}, [freed(86_400e9 + 1)])).toContain('93 % full, as planned');
  expect(store(93 * GIB, 50 * GIB, [one({ when_full: 'shed' })], {}, [freed(0)])).toContain('full in');
  expect(store(93 * GIB, 50 * GIB, [one({ when_full: 'shed' }), one()], {}, [freed(86_400e9 + 1)])).toContain('full in');
  // Only a tenth of what arrives stays.
  const classes = [one({ rows: 9, live: 9 }), one({ live: 1 })];
  expect(store(50 * GIB, 5 * GIB, classes, {}, [freed(86_400e9 + 1)])).toContain('full in 89d');
  expect(store(50 * GIB, 50 * GIB, [one({ rows: 9 })], {}, [freed(86_400e9 + 1)])).toContain('full in');
});

test('a full store, and one whose pace is unknown', () => {
  expect(store(96 * GIB, GIB)).toContain('96 % full, as planned');
  expect(store(96 * GIB, GIB, [one()], { planing: false })).toContain('raise disk');
  expect(store(GIB, 0)).toBe('1 % full; nothing arrives.');
  const written = { hour: period(1, 5), day: period(1, 5), start: period(1, 5) };
  expect(store(GIB, 0, [one()], { written } as Partial<LogReport>)).toContain('known after a minute');
  const space = { budget: null, used: GIB } as LogReport['space'];
  expect(store(GIB, 0, [one()], { space })).toContain('set disk');
});
