// Units in which the explorer shows values.

import * as format from './format';

export const UNITS = [
  { name: '', title: 'no unit' },
  { name: 'si', title: 'k, M, G' },
  { name: 'percent', title: '%' },
  { name: 'ratio', title: '% of 1' },
  { name: 'bytes', title: 'bytes' },
  { name: 'celsius', title: '°C' },
  { name: 'seconds', title: 'seconds' },
] as const;

export type Unit = (typeof UNITS)[number]['name'];

/** Formats a value with its unit. */
export function withUnit(value: number | bigint | null | undefined, unit: Unit): string {
  const number = Number(value);
  if (value === null || value === undefined || !Number.isFinite(number)) return format.sample(value);
  if (unit === 'si') return format.si(number);
  if (unit === 'bytes') return format.bytes(number);
  if (unit === 'seconds') return number < 0 ? `−${format.duration(-number * 1e9)}` : format.duration(number * 1e9);
  if (unit === 'ratio') return `${format.sample(number * 100)} %`;
  const suffix = { percent: ' %', celsius: ' °C', '': '' }[unit];
  return `${format.sample(value)}${suffix}`;
}

/** Returns the labels of a value axis. A tick without a label is null. */
export function axis(splits: readonly (number | null)[], unit: Unit, isLog: boolean): string[] {
  if (unit === '' && !isLog) return format.axisValues(splits.filter((value) => value !== null));
  return splits.map((value) => (value === null ? '' : unit === '' ? format.si(value) : withUnit(value, unit)));
}
