import { expect, test } from 'vitest';
import { align, breakAtSilence, newestSince, spacing, stretches } from '../../src/samples';

test('columns are aligned to the union of their times', () => {
  const { times, values } = align([
    { times: [1, 3, 5], values: [[10, 30, 50]] },
    { times: [3, 4], values: [[3, null], [6, 8]] },
  ]);
  expect(times).toEqual([1, 3, 4, 5]);
  expect(values).toEqual([[10, 30, undefined, 50], [undefined, 3, null, undefined], [undefined, 6, 8, undefined]]);
});

test('equal times are shared, and nothing is nothing', () => {
  expect(align([{ times: [1, 2], values: [[1, 2]] }, { times: [1, 2], values: [[3, 4]] }])).toEqual({ times: [1, 2], values: [[1, 2], [3, 4]] });
  expect(align([])).toEqual({ times: [], values: [] });
});

test('columns of equal length but other times are not mistaken for equal', () => {
  expect(align([{ times: [1, 2], values: [[1, 2]] }, { times: [1, 3], values: [[3, 4]] }])).toEqual({ times: [1, 2, 3], values: [[1, 2, undefined], [3, undefined, 4]] });
});

test('the line breaks where a sensor was silent, and not where it is merely slow', () => {
  expect(spacing([0, 10, 20, 100])).toBe(10);
  const broken = breakAtSilence({ times: [0, 10, 20, 100, 110], values: [[1, 2, 3, 4, 5]] });
  expect(broken).toEqual({ times: [0, 10, 20, 30, 100, 110], values: [[1, 2, 3, null, 4, 5]] });
  const even = { times: [0, 60, 120], values: [[1, 2, 3]] };
  expect(breakAtSilence(even)).toEqual(even);
  expect(breakAtSilence({ times: [7], values: [[1]] })).toEqual({ times: [7], values: [[1]] });
});

test('equal states are one stretch', () => {
  expect(stretches([1, 2, 3, 5], ['on', 'on', 'off', 'on'], 9)).toEqual([
    { from: 1, to: 3, state: 'on' },
    { from: 3, to: 5, state: 'off' },
    { from: 5, to: 9, state: 'on' },
  ]);
  expect(stretches([], [], 9)).toEqual([]);
});

test('the newest samples within a number', () => {
  expect(newestSince([1, 2, 3], [4, 4, 4], 12)).toBeNull();
  expect(newestSince([1, 2, 3], [4, 4, 4], 8)).toBe(2);
  expect(newestSince([1, 2, 3], [4, 4, 400], 8)).toBe(3);
});
