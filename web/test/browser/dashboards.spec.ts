// Dashboards, against the mock.

import type { Page } from '@playwright/test';
import { drawn, expect, hash, params, test } from './fixture';

const CPU = 'select=host_cpu%7Bcore%3D%22all%22%7D&field=usage&unit=percent';
const PANELS = [
  { title: 'CPU', query: CPU, size: 'medium' },
  { title: 'Memory', query: 'select=host_mem&field=used&unit=bytes', size: 'medium' },
  { title: 'Pumps', query: 'select=pump&field=state&field=running', size: 'large' },
  { title: 'Load', query: 'promql=host_load_load1', size: 'small' },
];

/** Stores a dashboard, as somebody else would. */
async function store(page: Page, name: string, panels: object[], headers: Record<string, string> = {}): Promise<void> {
  const stored = await page.request.put(`/api/v1/dashboards/${encodeURIComponent(name)}`, { data: { version: 1, interval: 'last=1h', refresh: '', panels }, headers });
  expect(stored.ok()).toBe(true);
}

test.describe('dashboards', () => {
  test('a view is saved as a panel of a new dashboard, and opens again', async ({ page, expected }) => {
    expected.push('409');
    await page.goto(`/#/explorer?${CPU}&last=6h`);
    await expect(page.locator('.legend tbody tr')).toHaveCount(2);
    await page.getByRole('button', { name: 'Save as panel…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Save as panel' });
    await expect(dialog.getByLabel('Title')).toHaveValue('host_cpu{core="all"} usage');
    await dialog.getByLabel('Title').fill('CPU');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect(dialog.getByRole('alert')).toHaveText('A dashboard needs a name.');
    await dialog.getByLabel('Name').fill('Küche 2');
    await dialog.getByLabel('Name').press('Enter');
    await dialog.getByRole('link', { name: 'Küche 2' }).press('Enter');
    await expect(page).toHaveTitle('Küche 2 · Seiner');
    await expect.poll(() => decodeURIComponent(hash(page))).toBe('#/d/Küche 2');
    const panel = page.getByRole('region', { name: 'CPU' });
    await expect(panel.locator('.legend tbody tr')).toHaveCount(2);
    await expect(panel.locator('.legend .at').first()).toHaveText(/ %$/);
    await expect(page.getByRole('button', { name: 'Last 6h' })).toHaveAttribute('aria-pressed', 'true');
    await expect.poll(() => drawn(page, '--series-0')).toBe(true);
    await panel.getByRole('link', { name: 'CPU' }).click();
    await expect.poll(() => params(page).get('last')).toBe('6h');
    await expect.poll(() => params(page).get('unit')).toBe('percent');
    // A second panel is added to the same dashboard.
    await page.getByRole('button', { name: 'Save as panel…' }).click();
    await expect(dialog.getByLabel('Dashboard')).toHaveValue('Küche 2');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('link', { name: 'Dashboards' }).click();
    await expect(page.getByRole('table', { name: 'Dashboards' }).locator('tbody tr')).toHaveText('Küche 222');
    await page.getByLabel('New dashboard').fill('Küche 2');
    await page.getByLabel('New dashboard').press('Enter');
    await expect(page.locator('.notice.severe')).toHaveText('There is a dashboard Küche 2 already. Choose another name.');
  });

  test('all panels share the interval, which is in the address', async ({ page }) => {
    await store(page, 'Boat', PANELS);
    await page.goto('/#/d/Boat');
    await expect(page.locator('.panel')).toHaveCount(4);
    await expect(page.getByRole('region', { name: 'Pumps' }).locator('.ribbon').first()).toBeVisible();
    await expect(page.getByRole('region', { name: 'Load' }).locator('.legend tbody tr')).toHaveCount(1);
    const asked: string[] = [];
    page.on('requestfinished', (request) => asked.push(new URL(request.url()).searchParams.get('from') ?? ''));
    await page.getByRole('button', { name: 'Last 6h' }).click();
    await expect.poll(() => hash(page)).toBe('#/d/Boat?last=6h');
    await expect.poll(() => asked.filter((from) => /^\d+$/.test(from) && Math.abs(Number(from) / 1e6 - (Date.now() - 6 * 3600e3)) < 60e3).length).toBeGreaterThanOrEqual(3);
    const box = (await page.getByRole('region', { name: 'CPU' }).locator('.u-over').boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.75, box.y + 52, { steps: 5 });
    await page.mouse.up();
    await expect.poll(() => Number(params(page).get('to')) - Number(params(page).get('from'))).toBeLessThan(3.2 * 3600e3);
    await page.goBack();
    await expect(page.getByRole('button', { name: 'Last 6h' })).toHaveAttribute('aria-pressed', 'true');
    // The wheel scrolls the page in place of the chart.
    await page.mouse.wheel(0, 200);
    await page.waitForTimeout(400);
    await expect.poll(() => hash(page)).toBe('#/d/Boat?last=6h');
  });

  test('the editor changes titles, widths and places, and renames', async ({ page }) => {
    await store(page, 'Boat', PANELS);
    await page.goto('/#/d/Boat');
    const titles = page.locator('.panel h2');
    await expect(titles).toHaveText(['CPU', 'Memory', 'Pumps', 'Load']);
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('button', { name: 'Move CPU back' }).click();
    await expect(titles).toHaveText(['Memory', 'CPU', 'Pumps', 'Load']);
    await expect(page.getByRole('button', { name: 'Move CPU back' })).toBeFocused();
    await page.getByRole('button', { name: 'Remove Load' }).click();
    await page.getByLabel('Title of Memory').fill('RAM');
    await page.getByLabel('Title of Memory').press('Tab');
    await page.getByLabel('Width of RAM').selectOption('large');
    await page.getByLabel('Refresh').selectOption('30s');
    await page.getByLabel('Name').fill('Ship');
    await page.getByRole('button', { name: 'Save' }).click();
    await expect(page).toHaveTitle('Ship · Seiner');
    await expect.poll(() => hash(page)).toBe('#/d/Ship');
    await page.reload();
    await expect(titles).toHaveText(['RAM', 'CPU', 'Pumps']);
    await expect(page.getByLabel('Refresh')).toHaveValue('30s');
    await expect(page.locator('.panel').first()).toHaveAttribute('data-size', 'large');
    await page.getByRole('link', { name: 'Dashboards' }).click();
    await expect(page.getByRole('table', { name: 'Dashboards' }).locator('tbody tr')).toHaveCount(1);
    await page.getByRole('link', { name: 'Ship' }).click();
    await page.getByRole('button', { name: 'Edit' }).click();
    page.once('dialog', (dialog) => void dialog.accept());
    await page.getByRole('button', { name: 'Delete…' }).click();
    await expect(page.getByText('There are no dashboards.')).toBeVisible();
  });

  test('a change of somebody else is not overwritten', async ({ page, expected }) => {
    expected.push('412');
    await store(page, 'Boat', PANELS);
    await page.goto('/#/d/Boat');
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('button', { name: 'Remove CPU' }).click();
    await store(page, 'Boat', PANELS.slice(0, 1), { 'if-match': '"1"' });
    await page.getByRole('button', { name: 'Save' }).click();
    await expect(page.locator('.notice.severe')).toContainText('somebody else changed the dashboard "Boat"');
    await expect(page.locator('.panel h2')).toHaveText(['Memory', 'Pumps', 'Load']);
    await page.getByRole('button', { name: 'Discard my changes and read it' }).click();
    await expect(page.locator('.panel h2')).toHaveText(['CPU']);
  });

  test('refreshes by itself, and says that a panel has no data', async ({ page }) => {
    await store(page, 'Boat', [PANELS[0]!, { title: 'Gone', query: 'select=nothing', size: 'small' }]);
    await page.goto('/#/d/Boat?refresh=1s');
    await expect(page.getByRole('region', { name: 'Gone' })).toContainText('No source fits nothing.');
    let asked = 0;
    page.on('request', (request) => (asked += Number(new URL(request.url()).pathname === '/api/v1/query')));
    await expect.poll(() => asked, { timeout: 6000 }).toBeGreaterThanOrEqual(2);
  });

  test('a dashboard that does not exist is reported', async ({ page, expected }) => {
    expected.push('404');
    await page.goto('/#/d/None');
    await expect(page.locator('.notice.severe')).toContainText('there is no dashboard "None"');
    await page.getByRole('link', { name: 'All dashboards' }).click();
    await page.getByLabel('New dashboard').fill('None');
    await page.getByRole('button', { name: 'Create' }).click();
    await expect(page.getByText('This dashboard has no panels.')).toBeVisible();
  });

  test('a phone shows one panel beside the other, without a horizontal scroll bar', async ({ page }) => {
    await page.setViewportSize({ width: 390, height: 800 });
    await store(page, 'Boat', PANELS);
    await page.goto('/#/d/Boat');
    await expect(page.getByRole('region', { name: 'CPU' }).locator('.legend tbody tr')).toHaveCount(2);
    await expect.poll(() => page.locator('.panel').evaluateAll((all) => new Set(all.map((one) => one.getBoundingClientRect().left)).size)).toBe(1);
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
  });
});
