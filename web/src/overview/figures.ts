// Figures of the overview, computed from /status.

import type { Loss, Status, Trouble } from '../api';
import * as format from '../format';

export interface Warning {
  severe: boolean;
  text: string;
}

/** Returns the bytes on disk per sample, over all blocks sealed since the store was opened. */
export function bytesPerSample(status: Status): number | null {
  const { sealed_block_bytes: bytes, samples_sealed: samples } = status.engine ?? {};
  return bytes === undefined || samples === undefined || samples <= 0 ? null : bytes / samples;
}

/** Returns a note on the numbers of sealed and open segments. */
export function segmentsNote(sealed: number | undefined, open: number | undefined): string {
  const written = (open ?? 0) > 0 ? `, ${format.count(open)} open` : '';
  return `${format.count(sealed)} sealed${written}`;
}

/** Returns the troubles that the server reports, the worst first. */
export function warningsOf(troubles: readonly Trouble[] = []): Warning[] {
  return troubles.map(({ health, text }) => ({ severe: health !== 'pass', text: sentence(text) }));
}

/** Returns the troubles for the operator, severe ones first. The server reports some, the page finds others. */
export function warnings(status: Status): Warning[] {
  const found = warningsOf(status.troubles);
  const engine = status.engine ?? {};
  const free = format.share(status.disk?.free_bytes, status.disk?.total_bytes);
  if (free !== null && free < 5) {
    found.push({ severe: true, text: `Only ${format.bytes(status.disk?.free_bytes)} of the disk are free.` });
  }
  const memory = format.share(engine.memory_used_bytes, engine.memory_budget_bytes);
  if (memory !== null && memory >= 95) {
    found.push({ severe: false, text: 'The memory budget is used up: buffers are sealed early, and new sources may be rejected.' });
  }
  return found.sort((a, b) => Number(b.severe) - Number(a.severe));
}

/** Text with a capital letter at its start. */
const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the cells of a loss: file, description, rows, first and last time, time of discovery. */
export function lossCells(loss: Loss): string[] {
  const time = (ns: string | null): string => (ns === null ? 'unknown' : format.moment(Number(BigInt(ns) / 1_000_000n)));
  const rows = loss.rows === null ? 'unknown' : `${loss.at_most ? 'at most ' : ''}${format.count(loss.rows)}`;
  return [loss.file, loss.what, rows, time(loss.from), time(loss.to), time(loss.found_at)];
}

/** Returns the name of the durability and its meaning for acknowledged samples. */
export function durability(status: Status): { name: string; meaning: string } {
  const { mode, interval_ms: interval } = status.durability ?? {};
  switch (mode) {
    case 'sync':
      return { name: 'sync', meaning: 'Acknowledged means on disk: a write is answered after the sync of the journal. A power cut loses no acknowledged sample.' };
    case 'interval':
      return {
        name: `every ${format.duration((interval ?? 0) * 1e6)}`,
        meaning: `The journal is written and synced every ${format.duration((interval ?? 0) * 1e6)}. A crash loses at most the samples shown here: those accepted since the last sync began.`,
      };
    case 'memory':
      return { name: 'memory', meaning: 'There is no journal: a crash loses every sample that is not in a sealed segment yet, as shown here. This halves what is written to disk.' };
    default:
      return { name: mode ?? '–', meaning: 'Accepted samples that a power cut now would lose.' };
  }
}

/** Figures of a live curve over a recent interval. Older figures are dropped. */
export class Trail {
  readonly times: number[] = [];
  readonly values: (number | null)[][];

  constructor(
    columns: number,
    /** Length of the trail, ms. */
    private readonly length: number,
  ) {
    this.values = Array.from({ length: columns }, () => []);
  }

  /** Inserts older figures before the present ones. */
  recall(times: readonly number[], columns: readonly (readonly (number | null)[])[]): void {
    const first = this.times[0] ?? Infinity;
    const older = times.filter((time) => time < first).length;
    this.times.unshift(...times.slice(0, older));
    this.values.forEach((column, i) => column.unshift(...(columns[i] ?? []).slice(0, older)));
  }

  push(time: number, ...values: (number | null)[]): void {
    this.times.push(time);
    this.values.forEach((column, i) => column.push(values[i] ?? null));
    const excess = this.times.findIndex((one) => one >= time - this.length);
    if (excess <= 0) return;
    this.times.splice(0, excess);
    for (const column of this.values) column.splice(0, excess);
  }
}
