// Curves of the store's machine. The page lists the stored measurements and prefers a curated choice. A missing
// measurement or field only removes its curve.

import { values, type Field } from '../api';
import { format, type Filter } from '../selector';

export type Unit = 'percent' | 'bytes' | 'bytes/s' | 'count' | 'celsius';

export interface Panel {
  title: string;
  measurement: string;
  /** Measurement to use if the first is missing, such as the measurement of an agent. */
  otherwise?: string;
  /** Groups of fields, the best first: the first group with an existing field is shown. */
  prefer: { fields: string[]; unit: Unit }[];
  /** A tag, and the values of it that name the total, best first. */
  whole?: { tag: string; values: string[] };
}

/** Measurement that only the store itself writes, so its host tag is the name of this machine. */
const OWN = 'seiner';

/** Measurements of the host's own sensors. All others were written by clients. */
export const OWN_SENSORS: ReadonlySet<string> = new Set(['host_cpu', 'host_mem', 'host_net', 'host_disk', 'host_fs', 'host_load', 'host_temp', OWN]);

export const PANELS: readonly Panel[] = [
  {
    title: 'CPU',
    measurement: 'host_cpu',
    otherwise: 'cpu',
    prefer: [
      { fields: ['usage', 'usage_percent', 'busy'], unit: 'percent' },
      { fields: ['user', 'system', 'iowait', 'usage_user', 'usage_system', 'usage_iowait'], unit: 'percent' },
    ],
    whole: { tag: 'core', values: ['all', 'total', 'cpu-total'] },
  },
  {
    title: 'Memory',
    measurement: 'host_mem',
    otherwise: 'mem',
    prefer: [
      { fields: ['used', 'used_bytes', 'cached', 'cached_bytes'], unit: 'bytes' },
      { fields: ['used_percent'], unit: 'percent' },
    ],
  },
  {
    title: 'Network',
    measurement: 'host_net',
    otherwise: 'net',
    prefer: [
      { fields: ['rx_bytes_per_s', 'tx_bytes_per_s', 'received_per_s', 'sent_per_s'], unit: 'bytes/s' },
      { fields: ['rx_bytes', 'tx_bytes', 'received_bytes', 'sent_bytes', 'bytes_recv', 'bytes_sent', 'received', 'sent'], unit: 'bytes/s' },
    ],
    whole: { tag: 'interface', values: ['all', 'total'] },
  },
  {
    title: 'Disk',
    measurement: 'host_disk',
    otherwise: 'disk',
    prefer: [
      { fields: ['read_bytes_per_s', 'write_bytes_per_s', 'written_bytes_per_s'], unit: 'bytes/s' },
      { fields: ['read_bytes', 'write_bytes', 'written_bytes', 'read', 'written'], unit: 'bytes/s' },
      { fields: ['used_percent'], unit: 'percent' },
      { fields: ['used', 'used_bytes'], unit: 'bytes' },
    ],
  },
  {
    title: 'Written by the store',
    measurement: OWN,
    prefer: [{ fields: ['journal_written_per_s', 'segment_written_per_s'], unit: 'bytes/s' }],
  },
  { title: 'Load', measurement: 'host_load', otherwise: 'load', prefer: [{ fields: ['load1', 'load5', 'load15', 'one', 'five', 'fifteen', '1m', '5m', '15m'], unit: 'count' }] },
  { title: 'Temperature', measurement: 'host_temp', otherwise: 'temp', prefer: [{ fields: ['celsius', 'temperature', 'temp', 'value', 'input'], unit: 'celsius' }] },
];

/** Substitutes of the panels; null if there is none. */
const STANDINS: readonly (Panel | null)[] = PANELS.map((panel) => (panel.otherwise === undefined ? null : { ...panel, measurement: panel.otherwise }));

/** Returns the panels with existing measurements. */
export function present(there: ReadonlySet<string>): Panel[] {
  const found = PANELS.map((panel, i) => (there.has(panel.measurement) ? panel : (STANDINS[i] ?? null)));
  return found.filter((panel) => panel !== null && there.has(panel.measurement)) as Panel[];
}

/** Maximum number of fields of a panel without a curated choice. */
const FALLBACK = 3;

export interface Choice {
  fields: string[];
  unit: Unit;
}

/** Returns the fields that a panel shows; null if none of them exists. */
export function choose(panel: Panel, fields: readonly Field[]): Choice | null {
  const numeric = fields.filter((field) => field.type !== 'string' && field.type !== 'bool').map((field) => field.name);
  for (const group of panel.prefer) {
    const found = group.fields.filter((field) => numeric.includes(field));
    if (found.length > 0) return { fields: found, unit: group.unit };
  }
  const some = numeric.slice(0, FALLBACK);
  return some.length > 0 ? { fields: some, unit: 'count' } : null;
}

/** Returns the selector of a panel. `values` are the values of the tag that names the total. */
export function select(panel: Panel, values: readonly string[], host: string | null): string {
  const whole = panel.whole?.values.find((value) => values.includes(value));
  const filters: Filter[] = host === null ? [] : [{ tag: 'host', operator: '=', values: [host] }];
  if (whole !== undefined) filters.push({ tag: panel.whole!.tag, operator: '=', values: [whole] });
  return format({ measurement: panel.measurement, filters });
}

/** Returns the name of the store's machine; null if it is unknown. */
export async function thisHost(measurements: ReadonlySet<string>, signal: AbortSignal): Promise<string | null> {
  if (!measurements.has(OWN)) return null;
  const hosts = await values(OWN, 'host', signal);
  return hosts.length === 1 ? hosts[0]! : null;
}

/** Returns true if values only grow, like a counter. One reset, as after a restart, is permitted. */
export function growsOnly(values: readonly (number | null | undefined)[]): boolean {
  let last: number | null = null;
  let falls = 0;
  let rises = 0;
  for (const value of values) {
    if (value === null || value === undefined) continue;
    if (last !== null && value < last) falls += 1;
    if (last !== null && value > last) rises += 1;
    last = value;
  }
  return rises > 0 && falls <= 1 && rises > falls;
}

/** Returns a counter's growth per second. The first value, and the value after a reset, have none. */
export function perSecond(times: readonly number[], values: readonly (number | null | undefined)[]): (number | null)[] {
  let last: { time: number; value: number } | null = null;
  return values.map((value, i) => {
    if (value === null || value === undefined) return null;
    const before = last;
    last = { time: times[i]!, value };
    if (before === null || value < before.value || last.time <= before.time) return null;
    return ((value - before.value) / (last.time - before.time)) * 1000;
  });
}
