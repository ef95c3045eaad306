// Contents of the store by name: what a search finds, and the times for which samples are stored.

import type { Summary } from '../api';
import type { Window } from '../interval';
import type { Filter } from '../selector';

/** Measurement that a search found. */
export interface Hit {
  summary: Summary;
  /** Conditions that select what was found, if it is a value of a tag. */
  filters: Filter[];
  /** Field to show first: the one that was found. */
  field: string | null;
}

/** Returns the words of a search, in lower case. */
export function words(typed: string): string[] {
  return typed.toLowerCase().split(/\s+/).filter((word) => word !== '');
}

/** Returns the measurements whose names, tags or fields contain all words. Names that begin with a word come first. */
export function find(summaries: readonly Summary[], typed: string): Hit[] {
  const wanted = words(typed);
  const hits = summaries.flatMap((summary): { hit: Hit; rank: number }[] => {
    const name = summary.measurement.toLowerCase();
    const parts = [name, ...summary.tags.map((tag) => tag.name.toLowerCase()), ...summary.fields.map((field) => field.name.toLowerCase())];
    if (!wanted.every((word) => parts.some((part) => part.includes(word)))) return [];
    const field = summary.fields.find((one) => wanted.some((word) => !name.includes(word) && one.name.toLowerCase().includes(word)));
    const rank = wanted.some((word) => name.startsWith(word)) ? 0 : wanted.some((word) => name.includes(word)) ? 1 : 2;
    return [{ hit: { summary, filters: [], field: field?.name ?? null }, rank }];
  });
  return hits.sort((a, b) => a.rank - b.rank).map(({ hit }) => hit);
}

/** Returns the distinct names of tags, those of most measurements first. */
export function tagNames(summaries: readonly Summary[]): string[] {
  const counts = new Map<string, number>();
  for (const { tags } of summaries) for (const { name } of tags) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

/** Returns the times from the first to the last sample; null without samples. */
export function stored(summaries: readonly Summary[]): Window | null {
  const known = summaries.filter((one) => one.first !== null && one.last !== null);
  if (known.length === 0) return null;
  // Dates have ns and times here have ms, so the end is rounded up.
  return { from: Math.min(...known.map((one) => Date.parse(one.first!))), to: Math.max(...known.map((one) => Date.parse(one.last!) + 1)) };
}

/** Returns true if two windows share a moment. */
export function overlap(a: Window, b: Window): boolean {
  return a.from <= b.to && b.from <= a.to;
}
