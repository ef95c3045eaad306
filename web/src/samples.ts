// Series in the form that charts require: one ascending axis of times for all series, and columns aligned to that
// axis. A missing value is `undefined` if only the alignment left a hole (the line continues), and `null` if the
// sensor was silent (the line breaks).

export type Value = number | null | undefined;

export interface Column {
  times: number[];
  values: Value[][];
}

/** Silence of a sensor, as a multiple of its usual distance between samples. */
const SILENCE = 5;

/** Returns the median distance between times; 0 for fewer than two times. */
export function spacing(times: readonly number[]): number {
  if (times.length < 2) return 0;
  const distances = new Float64Array(times.length - 1);
  for (let i = 1; i < times.length; i += 1) distances[i - 1] = times[i]! - times[i - 1]!;
  distances.sort();
  return distances[distances.length >> 1]!;
}

/** Inserts a null where the gap between samples is much longer than usual, and than `least`. */
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

/** Returns a drawable value. For NaN and infinities, the chart shows a gap and the legend shows the name. */
export function drawable(value: number | null): number | null {
  return value === null || !Number.isFinite(value) ? null : value;
}

/** Stretch of time in which a text series has one state. */
export interface Stretch {
  from: number;
  to: number;
  state: string;
}

/** Converts text samples to stretches of equal state. The last stretch ends at `end`. */
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

/** Returns the earliest time from which at most `most` samples follow, by counts per bucket. */
export function newestSince(times: readonly number[], counts: readonly number[], most: number): number | null {
  let total = 0;
  for (let i = times.length - 1; i >= 0; i -= 1) {
    total += counts[i] ?? 0;
    if (total > most) return i + 1 < times.length ? times[i + 1]! : times[i]!;
  }
  return null;
}
