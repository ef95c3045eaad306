// Names of series. Parts that all series share are shown once, above. Each series is named by its own parts.

import type { SeriesKey } from './api';

export interface Labels {
  /** Tags that all series share. */
  shared: Record<string, string>;
  /** Field, if all series share it. */
  field: string | null;
  /** Distinguishing name of each series; never empty. */
  each: string[];
}

/** Pattern of values that are clear without their tag: `anchor`, but not `0`. */
const NAMES_ITSELF = /\p{L}{2}/u;

export function labels(series: readonly Omit<SeriesKey, 'type'>[]): Labels {
  const first = series[0];
  if (first === undefined) return { shared: {}, field: null, each: [] };
  const shared: Record<string, string> = {};
  for (const [tag, value] of Object.entries(first.tags)) {
    if (series.every((one) => one.tags[tag] === value)) shared[tag] = value;
  }
  const field = series.every((one) => one.field === first.field) ? first.field : null;
  const measurement = series.every((one) => one.measurement === first.measurement);
  const plain = (tag: string): boolean => series.every((one) => NAMES_ITSELF.test(one.tags[tag] ?? ''));
  const each = series.map((one) => {
    const own = Object.entries(one.tags).filter(([tag]) => !(tag in shared));
    const words = own.map(([tag, value]) => (own.length === 1 && plain(tag) ? value : `${tag}=${value}`));
    if (field === null) words.unshift(one.field);
    if (!measurement) words.unshift(one.measurement);
    return words.join(' ') || one.field;
  });
  return { shared, field, each };
}
