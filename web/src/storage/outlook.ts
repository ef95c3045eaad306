// One sentence on the space of the store: how full it is, what follows, and if anything must be done.

import type { Decision, LogClass, LogReport } from '../api';
import * as format from '../format';
import { years } from './figures';

/** Shortest period from which a pace follows, s. */
const KNOWN = 60;
/** Time before the store is full in which something should be done, days. */
const SOON = 30;
const DAY = 86_400;
/** Distance to the share at which merging begins within which a store counts as full. */
const NEAR = 0.05;

const expires = (one: LogClass): boolean => one.age_ns !== null || one.rows !== null || one.bytes !== null;

/** Returns the sentence. */
export function outlook(report: LogReport, decisions: readonly Decision[]): string {
  const { space, written, planing } = report;
  if (space.budget === null) return `${format.bytes(space.used)} used. The size of the disk is unknown: set disk, so that the store cannot fill it.`;
  const full = `${Math.round(100 * space.u)} % full`;
  const free = space.um * space.budget - space.used;
  const used = report.classes.filter((one) => one.sources > 0);
  const frees = decisions.some(({ at }) => report.now - at < DAY * 1e9);
  const isSteady = frees && used.every((one) => expires(one) || one.when_full === 'shed');
  if (free <= 0 || (isSteady && space.u > space.um - NEAR)) {
    return planing
      ? `${full}, as planned: the oldest samples are dropped with their segments, unread; nothing to do.`
      : `${full}: space is freed by merging, which writes live data again. To avoid that, raise disk, or shorten a retention class.`;
  }
  const { seconds, stored } = written.day;
  if (seconds < KNOWN) return `${full}; the pace is known after a minute.`;
  if (stored === 0) return `${full}; nothing arrives.`;
  const pace = stored / seconds;
  const bound = highest(used, pace);
  if (bound !== null && bound <= space.um * space.budget) return `${full}; the retention classes keep it below ${percent(bound / space.budget)}; nothing to do.`;
  const days = free / (frees ? pace * lasting(used) : pace) / DAY;
  const soon = days < SOON && bound === null;
  return `${full}; at this pace full in ${years(days < 2 ? days : Math.floor(days))}; ${soon ? `raise disk, or set a retention class: when it is full, ${whenFull(used)}.` : 'nothing to do.'}`;
}

/** Returns the share of the samples that no rule drops. As much is dropped of the others as arrives, once they are old. */
function lasting(classes: readonly LogClass[]): number {
  const sum = (some: readonly LogClass[]): number => some.reduce((all, one) => all + one.live, 0);
  const kept = sum(classes.filter((one) => !expires(one)));
  return kept === 0 ? 1 : kept / sum(classes);
}

/** Returns the bytes that the store has in the long run at a pace in B/s; null if a class keeps its samples for ever. */
function highest(classes: readonly LogClass[], pace: number): number | null {
  if (classes.length === 0 || !classes.every(expires)) return null;
  const quotas = classes.reduce((all, one) => all + (one.bytes ?? 0), 0);
  if (classes.every((one) => one.bytes !== null)) return quotas;
  const ages = classes.map((one) => one.age_ns);
  // The pace of each class is unknown, so that the longest age counts for all.
  return ages.includes(null) ? null : (pace * Math.max(...ages.map(Number))) / 1e9;
}

/** Describes what happens to samples without space. */
function whenFull(classes: readonly LogClass[]): string {
  const shed = classes.filter((one) => one.when_full === 'shed').map((one) => one.name);
  return shed.length === 0 ? 'writes are rejected' : `the oldest samples of ${shed.join(', ')} are dropped`;
}

const percent = (share: number): string => `${Math.max(1, Math.ceil(100 * share))} %`;
