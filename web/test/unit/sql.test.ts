import { expect, test } from 'vitest';
import { rowsOf } from '../../src/api';
import { bound, curves, table } from '../../src/explorer/sql';

test('the ends of the interval are put into the statement', () => {
  const window = { from: 0, to: 60_000 };
  expect(bound('x BETWEEN $from AND $to OR $fromage', window)).toBe("x BETWEEN TIMESTAMP '1970-01-01T00:00:00.000Z' AND TIMESTAMP '1970-01-01T00:01:00.000Z' OR $fromage");
});

test('numbers after a time are curves, by the texts beside them', () => {
  const rows = [
    { t: '2026-01-01T00:01:00Z', host: 'a', usage: 2, n: null },
    { t: '2026-01-01T00:00:00Z', host: 'a', usage: 1, n: 7 },
    { t: '2026-01-01T00:00:00Z', host: 'b', usage: null, n: 8 },
    { t: '2026-01-01T00:00:00Z', host: 'a', usage: 3, n: 7 },
  ];
  const found = curves(table(rows, false));
  const at = Date.UTC(2026, 0, 1);
  expect(found.map(({ field, tags, times, mean }) => [field, tags['host'], times, mean])).toEqual([
    ['usage', 'a', [at, at + 60e3], [3, 2]],
    ['n', 'a', [at], [7]],
    ['n', 'b', [at], [8]],
  ]);
});

test('other tables have no curves', () => {
  for (const rows of [[], [{ host: 'a', n: 1 }], [{ n: 1, t: '2026-01-01T00:00:00Z' }], [{ t: '2026-01-01T00:00:00Z', s: 'x' }], [{ t: '2026', n: 1 }]]) expect(curves(table(rows, false))).toEqual([]);
  // A time without a zone is in UTC, whatever the zone of the browser is.
  expect(curves(table([{ t: '2026-01-01 00:00:00.5', n: 1 }], false))[0]!.times).toEqual([Date.UTC(2026, 0, 1) + 500]);
});

test('a long answer is cut after a whole row', () => {
  const text = '[{"a":"x},{\\"b","n":1},{"a":"}","n":2},{"a":"},{';
  expect(rowsOf(text)).toEqual([{ a: 'x},{"b', n: 1 }, { a: '}', n: 2 }]);
  expect(rowsOf('[{"a":')).toEqual([]);
});
