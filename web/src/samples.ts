// Series as a chart wants them: one ascending axis of times shared by all, and columns aligned to
// it. A missing value is `undefined` where only the alignment left a hole (a line runs on), and
// `null` where the sensor was silent (the line breaks).

export type Value = number | null | undefined;

export interface Column {
  times: number[];
  values: Value[][];
}

/** A sensor counts as silent when it skips this many of its usual distances. */
const SILENCE = 5;

/** The median distance of times; 0 for fewer than two. */
export function spacing(times: readonly number[]): number {
  if (times.length < 2) return 0;
  const distances = new Float64Array(times.length - 1);
  for (let i = 1; i < times.length; i += 1) distances[i - 1] = times[i]! - times[i - 1]!;
  distances.sort();
  return distances[distances.length >> 1]!;
}

/** Inserts a null where a series is silent for much longer than it usually is, or than `least`. */
export function breakAtSilence(column: Column, least = 0): Column {
  const usual = Math.max(spacing(column.times), least);
  if (usual <= 0) return column;
  const times: number[] = [];
  const values: Value[][] = column.values.map(() => []);
  column.times.forEach((time, i) => {
    const last = times[times.length - 1];
    if (last !== undefined && time - last > SILENCE * usual) {
      times.push(last + usual);
      for (const out of values) out.push(null);
    }
    times.push(time);
    values.forEach((out, k) => out.push(column.values[k]![i]));
  });
  return { times, values };
}

/** Aligns columns to the union of their times. */
export function align(columns: readonly Column[]): { times: number[]; values: Value[][] } {
  const times = union(columns.map((column) => column.times));
  const values: Value[][] = [];
  for (const column of columns) {
    const same = column.times.length === times.length;
    for (const source of column.values) {
      if (same) {
        values.push(source);
        continue;
      }
      const aligned: Value[] = new Array<Value>(times.length).fill(undefined);
      let at = 0;
      column.times.forEach((time, i) => {
        while (times[at]! < time) at += 1;
        aligned[at] = source[i];
      });
      values.push(aligned);
    }
  }
  return { times, values };
}

function union(lists: readonly (readonly number[])[]): number[] {
  const first = lists[0] ?? [];
  if (lists.every((list) => list.length === first.length && list.every((time, i) => time === first[i]))) return [...first];
  const all = new Set<number>();
  for (const list of lists) for (const time of list) all.add(time);
  return Float64Array.from(all).sort().reduce<number[]>((into, time) => (into.push(time), into), []);
}

/** Infinities and NaN cannot be drawn: a chart shows them as gaps, the legend by name. */
export function drawable(value: number | null): number | null {
  return value === null || !Number.isFinite(value) ? null : value;
}

/** A stretch of time in which a text series kept its state. */
export interface Stretch {
  from: number;
  to: number;
  state: string;
}

/** Text samples as stretches of equal state; the last lasts until `end`. */
export function stretches(times: readonly number[], states: readonly string[], end: number): Stretch[] {
  const found: Stretch[] = [];
  times.forEach((time, i) => {
    const state = states[i]!;
    const last = found[found.length - 1];
    if (last !== undefined && last.state === state) return;
    if (last !== undefined) last.to = time;
    found.push({ from: time, to: end, state });
  });
  return found;
}

/** Since when the newest samples can be shown without taking more than `most`, by counts per bucket. */
export function newestSince(times: readonly number[], counts: readonly number[], most: number): number | null {
  let total = 0;
  for (let i = times.length - 1; i >= 0; i -= 1) {
    total += counts[i] ?? 0;
    if (total > most) return i + 1 < times.length ? times[i + 1]! : times[i]!;
  }
  return null;
}
