import { expect, test } from 'vitest';
import type { LogClass, Segment } from '../../src/api';
import { BAR_HEIGHT, barAt, bars, decisionWords, keeps, laneWords, ownPerDay, perByte, segmentWords, signed, years } from '../../src/storage/figures';

const segment = (change: Partial<Segment> = {}): Segment => ({ number: 7, lane: 1, bytes: 100, live: 50, dead: 25, open: false, born: 0, dies: null, ...change });
const many = (count: number): Segment[] => Array.from({ length: count }, (_, number) => segment({ number }));

test('a segment is a bar of live bytes with dead bytes on top', () => {
  const drawn = bars([segment(), segment({ open: true, dead: 0, live: 20 }), segment({ live: 0, dead: 0 })], 100, 140);
  expect(drawn.live).toBe('M0 17h12v17h-12z');
  expect(drawn.dead).toBe('M0 8.5h12v8.5h-12z');
  expect(drawn.open).toBe('M14 27.2h12v6.8h-12z');
  expect(drawn.height).toBe(BAR_HEIGHT);
});

test('many segments get narrower bars, then more rows, and stay within the width', () => {
  for (const [count, width] of [[10, 800], [300, 800], [20_000, 300], [5, 1]] as const) {
    const drawn = bars(many(count), 100, width);
    expect(drawn.perRow * drawn.pitch).toBeLessThanOrEqual(Math.max(width, drawn.pitch));
    expect(drawn.live.match(/M/g)).toHaveLength(count);
  }
  expect(bars(many(20_000), 100, 300).pitch).toBe(2);
  expect(bars(many(10), 100, 800).pitch).toBe(14);
});

test('a bar is found where it is drawn', () => {
  const drawn = bars(many(30), 100, 140);
  const { pitch, perRow } = drawn;
  for (const at of [0, 5, perRow, 29]) {
    const x = (at % perRow) * pitch + 1;
    const y = Math.floor(at / perRow) * (BAR_HEIGHT + 6) + 10;
    expect(barAt(drawn, 30, x, y)).toBe(at);
  }
  expect(barAt(drawn, 30, 139.9, 1000)).toBeNull();
  expect(barAt(drawn, 30, -3, 5)).toBeNull();
});

test('words for segments, lanes, classes and decisions', () => {
  expect(segmentWords(segment({ dies: 3600e9 }), 0)).toBe('Segment 7: 50 B live, 25 B expired or overwritten (33 %), the last block expires in 1h');
  expect(segmentWords(segment({ dies: 1 }), 2)).toContain('all blocks have expired');
  expect(segmentWords(segment({ open: true }), 0)).toContain('being written');
  const lane = { id: 0, from_ns: null, to_ns: null, flow_share: 0, segment_bytes: 1 };
  expect(laneWords(lane)).toBe('for ever');
  expect(laneWords({ ...lane, from_ns: 3600e9 })).toBe('1h and more');
  expect(laneWords({ ...lane, from_ns: 3600e9, to_ns: 86_400e9 })).toBe('1h to 1d');
  const rules: LogClass = { name: 'a', select: '', age_ns: null, rows: null, bytes: null, priority: 1, when_full: 'shed', sources: 1, live: 1, hidden_before: null };
  expect(keeps(rules)).toBe('for ever');
  expect(keeps({ ...rules, age_ns: 30 * 86_400e9, bytes: 2 ** 30 })).toBe('the latest 30d, 1 GiB');
  const decision = { at: 0, policy: 'patient', u: 1, um: 1, v: 1, hunger: 1, least_dead_share: null, average_dead_share: null, candidates: 3, drop: [1], merge: [{ number: 2, dead_share: 0.5, live: 1024, gain: 2048, score: 1 }] };
  expect(decisionWords(decision)).toBe('dropped 1 dead segment unread; merged 1 segment: 1 KiB rewritten, 2 KiB freed');
});

test('lives of devices and signs', () => {
  expect([years(90), years(3652.5), years(1e9)]).toEqual(['90d', '10 years', 'over 100 years']);
  expect(signed(-0.126)).toBe('−0.13');
});

test('unknown values are not shown', () => {
  const period = { seconds: 10, stored: 0, merged: 0, journal: 0, segments: 0, process: 100, device: null, per_byte: null };
  expect(perByte(period)).toBe('–');
  expect(ownPerDay(period)).toBeNull();
  expect(ownPerDay({ ...period, seconds: 86_400 })).toBe(100);
});
