// Document of a dashboard: panels with the states of the explorer, a common interval and a time between refreshes.
// Reading never fails: parts that cannot be parsed get their defaults.

import { parseDuration, type Interval } from '../interval';
import { readExplorer, readInterval, writeExplorer, writeInterval, type ExplorerState } from '../location';
import { format } from '../selector';

/** Version of the documents that this page writes. */
export const VERSION = 1;

export const SIZES = [
  { name: 'small', title: 'a third' },
  { name: 'medium', title: 'a half' },
  { name: 'large', title: 'the whole width' },
] as const;
export type Size = (typeof SIZES)[number]['name'];

export interface PanelDocument {
  title: string;
  /** State of the explorer as in its address, without an interval. */
  query: string;
  size: Size;
}

export interface DashboardDocument {
  version: number;
  /** Interval as in an address: `last=1h`, or `from` and `to` in ms. */
  interval: string;
  /** Time between two refreshes, such as `30s`; empty for none. */
  refresh: string;
  panels: PanelDocument[];
}

/** Times between two refreshes that the page offers. */
export const REFRESHES = ['', '5s', '10s', '30s', '1m', '5m'];
/** Shortest time between two refreshes, ms. */
const LEAST_REFRESH_MS = 1000;

export const emptyDashboard = (): DashboardDocument => ({ version: VERSION, interval: 'last=1h', refresh: '', panels: [] });

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Returns a document of any JSON. */
export function clean(value: unknown): DashboardDocument {
  const given = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  const panels = Array.isArray(given['panels']) ? (given['panels'] as unknown[]) : [];
  return {
    version: VERSION,
    interval: writeAsText(interval(text(given['interval']))),
    refresh: refreshOf(text(given['refresh'])),
    panels: panels.filter((panel) => typeof panel === 'object' && panel !== null).map((panel) => {
      const { title, query, size } = panel as Record<string, unknown>;
      return { title: text(title), query: text(query), size: SIZES.find((one) => one.name === size)?.name ?? 'medium' };
    }),
  };
}

/** Returns a time between refreshes; empty if it is none, or too short. */
export const refreshOf = (given: string): string => ((parseDuration(given) ?? 0) >= LEAST_REFRESH_MS ? given : '');

/** Returns the interval of a document. */
export const interval = (given: string): Interval => readInterval(new URLSearchParams(given)) ?? { kind: 'last', ms: 3600e3 };

export const writeAsText = (of: Interval): string => new URLSearchParams(writeInterval(of)).toString();

/** Returns the state of a panel over an interval. */
export function stateOf(panel: PanelDocument, over: Interval): ExplorerState {
  return { ...readExplorer(panel.query), interval: over, follow: false };
}

/** Returns the panel of a state of the explorer. */
export function panelOf(state: ExplorerState, title: string, size: Size): PanelDocument {
  const query = new URLSearchParams(writeExplorer({ ...state, follow: false }));
  for (const name of ['last', 'from', 'to']) query.delete(name);
  return { title, query: query.toString(), size };
}

/** Returns the default title of a state. */
export function titleOf(state: ExplorerState): string {
  if (state.promql !== null) return state.promql;
  if (state.sql !== null) return 'SQL';
  return [format(state.selector), ...state.fields].join(' ');
}

/** Returns panels in which one has moved by a number of places. */
export function moved(panels: readonly PanelDocument[], from: number, by: number): PanelDocument[] {
  const to = Math.max(0, Math.min(panels.length - 1, from + by));
  const others = panels.filter((_, i) => i !== from);
  return [...others.slice(0, to), panels[from]!, ...others.slice(to)];
}

/** Returns the reason why the server would reject a name; null if it accepts the name. */
export function nameFault(name: string): string | null {
  if (name === '') return 'A dashboard needs a name.';
  if ([...name].length > 100) return 'A name has at most 100 characters.';
  return /^[\p{L}\p{N} \-_.()]+$/u.test(name) && name.trim() === name && /[\p{L}\p{N}]/u.test(name) ? null : 'A name consists of letters, digits, spaces and -_.()';
}
