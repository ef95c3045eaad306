import { expect, test } from 'vitest';
import * as format from '../../src/format';

test('numbers in three digits', () => {
  expect([0, 1234, 999.4, 999.6, 1e6, -2500, 0.00123, NaN, Infinity, null].map((value) => format.si(value))).toEqual([
    '0', '1.23 k', '999', '1 k', '1 M', '-2.5 k', '0.00123', '–', '∞', '–',
  ]);
  expect(format.si(1500, 'B/s')).toBe('1.5 kB/s');
});

test('bytes', () => {
  expect([0, 1023, 1024, 1536, 64 * 2 ** 20, 38.3 * 2 ** 30].map((value) => format.bytes(value))).toEqual(['0 B', '1023 B', '1 KiB', '1.5 KiB', '64 MiB', '38.3 GiB']);
  expect(format.bytes(undefined)).toBe('–');
});

test('samples are shown as exactly as is readable', () => {
  expect([21.5, 1 / 3, 1234567, 5_937_531_498.5, 1e18, 1e-7, NaN, -Infinity, null].map((value) => format.sample(value))).toEqual([
    '21.5', '0.333333', '1,234,567', '5,937,531,499', '1.0000e+18', '1.0000e-7', 'NaN', '−∞', '–',
  ]);
});

test('lengths of time', () => {
  expect([0, 999, 61e6, 2.5e9, 90e9, 3725e9, 86_400e9, 90_061e9].map((value) => format.duration(value))).toEqual(['0 s', '999 ns', '61 ms', '2.5 s', '1m 30s', '1h 2m', '1d', '1d 1h']);
});

test('steps are written as the server reads them', () => {
  expect([1, 5e3, 250e6, 1e9, 15e9, 90e9, 3600e9, 604_800e9].map((value) => format.step(value))).toEqual(['1ns', '5us', '250ms', '1s', '15s', '90s', '1h', '7d']);
});

test('the axis of time names a day once', () => {
  const midnight = Date.UTC(2026, 10, 21);
  const hours = [-2, -1, 0, 1].map((hour) => midnight + hour * 3600e3);
  expect(format.axisTimes(hours, 3600e3)).toEqual(['22:00\n20 Nov', '23:00', '00:00\n21 Nov', '01:00']);
  expect(format.axisTimes([midnight + 5e3, midnight + 10e3], 5e3, false)).toEqual(['00:00:05', '00:00:10']);
  expect(format.axisTimes(hours, 3600e3, false)).toEqual(['22:00', '23:00', '00:00', '01:00']);
  expect(format.axisTimes([midnight, midnight + 86_400e3], 86_400e3)).toEqual(['21 Nov\n2026', '22 Nov']);
  expect(format.axisTimes([midnight + 1.5], 0.5)).toEqual(['00:00:00.001\n21 Nov']);
});

test('the axis of values has one unit, and decimals that tell neighbours apart', () => {
  expect(format.axisValues([0, 500, 1000, 1500])).toEqual(['0', '500', '1,000', '1,500']);
  expect(format.axisValues([0, 5e5, 1e6, 1.5e6])).toEqual(['0', '0.5 M', '1.0 M', '1.5 M']);
  expect(format.axisValues([20.25, 20.5, 20.75])).toEqual(['20.25', '20.50', '20.75']);
  expect(format.axisValues([-0.2, 0, 0.2])).toEqual(['-0.2', '0', '0.2']);
  expect(format.axisValues([1e20, 2e20])).toEqual(['1.00e+20', '2.00e+20']);
  expect(format.axisValues([])).toEqual([]);
});

test('shares', () => {
  expect(format.share(1, 4)).toBe(25);
  expect(format.share(9, 4)).toBe(100);
  expect(format.share(1, 0)).toBeNull();
  expect(format.share(undefined, 4)).toBeNull();
});
