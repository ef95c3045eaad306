// Light or dark: the system's preference, unless the reader chose a theme.

const KEY = 'seiner.theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

export type Theme = 'light' | 'dark';

function chosen(): Theme | null {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : null;
  } catch {
    return null; // a browser may forbid storage; the theme of the system then applies
  }
}

export function current(): Theme {
  const theme = document.documentElement.dataset['theme'];
  return theme === 'light' || theme === 'dark' ? theme : dark.matches ? 'dark' : 'light';
}

function apply(theme: Theme): void {
  document.documentElement.dataset['theme'] = theme;
  for (const listener of listeners) listener();
}

export function start(): void {
  apply(chosen() ?? (dark.matches ? 'dark' : 'light'));
  dark.addEventListener('change', () => {
    if (chosen() === null) apply(dark.matches ? 'dark' : 'light');
  });
}

export function toggle(): void {
  const theme: Theme = current() === 'dark' ? 'light' : 'dark';
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // without storage, the theme applies until the page is closed
  }
  apply(theme);
}

/** Calls the listener after each change of the theme. Returns a function that ends the calls. */
export function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns the present value of a colour of the style sheet. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const SERIES_COLOURS = 10;

/** Returns the colour of a series, by its index. */
export function seriesColour(index: number): string {
  return colour(`series-${index % SERIES_COLOURS}`);
}
