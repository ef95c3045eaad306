import { expect, test } from 'vitest';
import type { Raw, Stepped } from '../../src/api';
import { leftOutText, MOST_EVENTS, newest, total } from '../../src/explorer/events';

const series = (service: string, times: number[]): Raw => ({ measurement: 'deploy', tags: { service }, field: 'note', type: 'string', times, values: times.map((time) => `${service}${time}`) });

test('the newest events of all series are drawn, in their order', () => {
  const { marks, leftOut } = newest([series('web', [1, 4]), series('api', [2, 3, 9])], 12, 3);
  expect(marks.map(({ time, text, label }) => [time, text, label])).toEqual([[3, 'api3', 'api'], [4, 'web4', 'web'], [9, 'api9', 'api']]);
  expect(leftOut).toBe(9);
  expect(newest([], 0)).toEqual({ marks: [], leftOut: 0 });
});

test('the counts of several series are added, so that a dense one does not hide the bound', () => {
  const one = (times: number[], count: number[]): Stepped => ({ measurement: 'm', tags: {}, field: 'f', times, count });
  expect(total([one([1, 3], [5, 6]), one([2, 3], [7, 8])])).toEqual([[1, 2, 3], [5, 7, 14]]);
});

test('a sentence states how many are left out', () => {
  const source = { select: 'deploy', field: 'note' };
  const marks = newest([series('web', [1])], 1).marks;
  expect(leftOutText({ source, marks, leftOut: 0, truncated: false })).toBe('');
  expect(leftOutText({ source, marks: Array(MOST_EVENTS).fill(marks[0]), leftOut: 1, truncated: false })).toBe('The newest 100 are drawn; 1 earlier event is left out. Zoom in to see them.');
  expect(leftOutText({ source, marks, leftOut: 250, truncated: true })).toMatch(/250 earlier events are left out.*Narrow the selector/);
});
