// Figures of the storage, computed from /api/v1/log by pure functions.

import type { LogClass, LogReport, Decision, Lane, Period, Segment } from '../api';
import * as format from '../format';

/** Height of a full segment, px. */
export const BAR_HEIGHT = 34;
/** Gap between rows of bars, px. */
const ROW_GAP = 6;
/** Possible distances of bars, px, the widest first. */
const PITCHES = [14, 10, 7, 5, 4, 3, 2];
/** Maximum number of rows of a lane before its bars become narrower. */
const ROWS = 2;

export interface Bars {
  /** Distance from bar to bar, px. */
  pitch: number;
  perRow: number;
  height: number;
  /** Outlines for SVG: live bytes, dead bytes, open segments. */
  live: string;
  dead: string;
  open: string;
}

/** Draws segments as bars: live bytes below, dead bytes above. The height of a bar is the size of the segment. */
export function bars(segments: readonly Segment[], segmentBytes: number, width: number): Bars {
  const rowsAt = (pitch: number): number => Math.ceil(segments.length / Math.max(1, Math.floor(width / pitch)));
  const pitch = PITCHES.find((one) => rowsAt(one) <= ROWS) ?? PITCHES[PITCHES.length - 1]!;
  const perRow = Math.max(1, Math.floor(width / pitch));
  const thick = pitch > 3 ? pitch - 2 : pitch - 1;
  const drawn: Record<'live' | 'dead' | 'open', string> = { live: '', dead: '', open: '' };
  segments.forEach((segment, i) => {
    const x = (i % perRow) * pitch;
    const floor = Math.floor(i / perRow) * (BAR_HEIGHT + ROW_GAP) + BAR_HEIGHT;
    const tall = (bytes: number): number => round(Math.min(1, bytes / segmentBytes) * BAR_HEIGHT);
    const live = tall(segment.live);
    const dead = Math.min(tall(segment.dead), BAR_HEIGHT - live);
    if (live > 0) drawn[segment.open ? 'open' : 'live'] += `M${x} ${round(floor - live)}h${thick}v${live}h-${thick}z`;
    if (dead > 0) drawn.dead += `M${x} ${round(floor - live - dead)}h${thick}v${dead}h-${thick}z`;
  });
  return { pitch, perRow, height: Math.max(1, rowsAt(pitch)) * (BAR_HEIGHT + ROW_GAP) - ROW_GAP, ...drawn };
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** Returns the index of the bar at a point; null if there is no bar. */
export function barAt({ pitch, perRow }: Bars, count: number, x: number, y: number): number | null {
  const column = Math.floor(x / pitch);
  const at = Math.floor(y / (BAR_HEIGHT + ROW_GAP)) * perRow + column;
  return column < perRow && column >= 0 && at >= 0 && at < count ? at : null;
}

/** Describes a segment in words. */
export function segmentWords(segment: Segment, now: number): string {
  const share = segment.live + segment.dead > 0 ? segment.dead / (segment.live + segment.dead) : 1;
  const dies = segment.dies === null ? '' : segment.dies <= now ? ', all blocks have expired' : `, the last block expires in ${format.duration(segment.dies - now)}`;
  const state = segment.open ? ', being written' : dies;
  return `Segment ${segment.number}: ${format.bytes(segment.live)} live, ${format.bytes(segment.dead)} expired or overwritten (${Math.round(100 * share)} %)${state}`;
}

/** Describes the remaining life of the blocks of a lane in words. */
export function laneWords({ from_ns: from, to_ns: to }: Lane): string {
  if (from === null) return 'for ever';
  return to === null ? `${format.duration(from)} and more` : `${format.duration(from)} to ${format.duration(to)}`;
}

/** Describes the rules of a class in words. */
export function keeps(one: LogClass): string {
  const rules = [
    one.age_ns === null ? null : format.duration(one.age_ns),
    one.rows === null ? null : `${format.count(one.rows)} rows of each source`,
    one.bytes === null ? null : format.bytes(one.bytes),
  ].filter((rule) => rule !== null);
  const kept = rules.length === 0 ? 'for ever' : `the latest ${rules.join(', ')}`;
  return one.step_ns === undefined ? kept : `a row every ${format.step(one.step_ns)}, ${kept}`;
}

/** Bytes of blocks written for each byte stored. */
export const perByte = (period: Period): string => (period.per_byte === null ? '–' : period.per_byte.toFixed(2));

/** Bytes that the server writes per day, at the rate of a period. */
export const ownPerDay = (period: Period): number | null => (period.seconds < 30 ? null : (period.process / period.seconds) * 86_400);

/** Describes a decision in words. */
export function decisionWords(decision: Decision): string {
  const done: string[] = [];
  if (decision.drop.length > 0) done.push(`dropped ${plural(decision.drop.length, 'dead segment')} unread`);
  if (decision.merge.length > 0) {
    const sum = (of: 'live' | 'gain'): number => decision.merge.reduce((all, victim) => all + victim[of], 0);
    done.push(`merged ${plural(decision.merge.length, 'segment')}: ${format.bytes(sum('live'))} rewritten, ${format.bytes(sum('gain'))} freed`);
  }
  return done.join('; ');
}

/** Formats a number with two decimals and a typographic minus. */
export const signed = (value: number): string => value.toFixed(2).replace('-', '−');

/** Formats the life of a device, given in days. */
export function years(days: number): string {
  if (days >= 36_525) return 'over 100 years';
  return days >= 730.5 ? `${format.digits(days / 365.25)} years` : format.duration(days * 86_400e9);
}

const plural = (count: number, word: string): string => `${format.count(count)} ${word}${count === 1 ? '' : 's'}`;

/** Returns the sentence on planing: if segments expire as a whole or are merged. */
export function planing(report: LogReport): string {
  if (!report.planing) return 'Segments are merged to free space: live data are rewritten.';
  return report.space.u < report.space.um ? 'There is space: nothing must be merged.' : 'Segments expire as a whole: they are dropped unread, and nothing is rewritten.';
}
