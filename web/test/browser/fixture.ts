// The page against the mock. A test fails if the page logs an error or breaks the policy. Errors that a test causes
// are named in `expected`, by a part of their text, and may come at any time of the test.

import { expect, test as base, type Page } from '@playwright/test';

export { expect, base };

export const test = base.extend<{ expected: string[]; complaints: undefined }>({
  expected: async ({}, use) => use([]),
  complaints: [
    async ({ page, request, expected }, use) => {
      await request.post('/mock?scenario=calm');
      const complaints: string[] = [];
      page.on('pageerror', (error) => complaints.push(String(error)));
      page.on('console', (message) => {
        if (message.type() === 'error' || /Content Security Policy/.test(message.text())) complaints.push(message.text());
      });
      await use(undefined);
      expect(complaints.filter((text) => !expected.some((part) => text.includes(part)))).toEqual([]);
    },
    { auto: true },
  ],
});

export const plot = (page: Page) => page.locator('.pane .u-over').first();
export const hash = (page: Page) => new URL(page.url()).hash;
export const params = (page: Page) => new URLSearchParams(hash(page).split('?')[1]);

/** Returns true if some pixel of a canvas has nearly the colour of a CSS variable. */
export async function drawn(page: Page, variable: string): Promise<boolean> {
  return page.evaluate((name) => {
    const wanted = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const rgb = [1, 3, 5].map((at) => parseInt(wanted.slice(at, at + 2), 16));
    return [...document.querySelectorAll('canvas')].some((canvas) => {
      const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) if (data[i + 3]! > 200 && rgb.every((value, k) => Math.abs(data[i + k]! - value) < 24)) return true;
      return false;
    });
  }, variable);
}
