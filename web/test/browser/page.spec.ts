// The page in a real browser, against the mock with its strict content security policy.

import type { Page } from '@playwright/test';
import { base, drawn, expect, hash, params, plot, test } from './fixture';

const queries = (page: Page): URLSearchParams[] => {
  const seen: URLSearchParams[] = [];
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.pathname === '/api/v1/query') seen.push(url.searchParams);
  });
  return seen;
};

async function dragAcross(page: Page, from: number, to: number, shift = false): Promise<void> {
  const box = (await plot(page).boundingBox())!;
  const y = box.y + box.height / 2;
  if (shift) await page.keyboard.down('Shift');
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, y + 3, { steps: 6 });
  await page.mouse.up();
  if (shift) await page.keyboard.up('Shift');
}

const length = (page: Page): number => Number(params(page).get('to')) - Number(params(page).get('from'));

const ONE = '/#/explorer?select=host_cpu{host="anchor",core="all"}&field=usage&last=24h';

test.describe('plan', () => {
  test('plans what the form asks, and its address can be kept', async ({ page }) => {
    await page.goto('/');
    await page.getByRole('link', { name: 'Plan' }).click();
    await expect(page).toHaveTitle('Plan · Seiner');
    await page.getByLabel('Sensors', { exact: true }).fill('1e5');
    await expect(page.getByLabel('Memory')).toBeHidden();
    await page.getByText('More', { exact: true }).click();
    await page.getByLabel('Sensors of a host').fill('100');
    await page.getByLabel('Memory').fill('8GiB');
    await page.getByLabel('Memory').press('Enter');
    await expect(page.getByText('It fits this machine.')).toBeVisible();
    await expect(page.getByRole('table', { name: 'Forecast' })).toContainText('samples a second');
    await expect(page.getByText('planing')).toBeHidden();
    await page.getByText('Details', { exact: true }).click();
    await expect(page.getByRole('table', { name: 'Details' })).toContainText('planing');
    await expect(page.getByText('disk = "293 GiB"')).toBeVisible();
    const saved = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Save as seiner.toml' }).click();
    expect((await saved).suggestedFilename()).toBe('seiner.toml');
    await expect(page.getByText('seiner plan --sensors 1e5 --per-host 100 --ram 8GiB')).toBeVisible();
    await expect.poll(() => hash(page)).toBe('#/plan?sensors=1e5&per_host=100&ram=8GiB');
    await page.reload();
    await expect(page.getByLabel('Sensors', { exact: true })).toHaveValue('1e5');
    await expect(page.getByLabel('Memory')).toHaveValue('8GiB');
    await expect(page.getByLabel('Memory')).toBeVisible();
    await expect(page.getByText('It fits this machine.')).toBeVisible();
  });

  test('says what would fit where the demand does not', async ({ page }) => {
    await page.goto('/#/plan?sensors=5e6');
    await expect(page.getByText('It does not fit this machine.')).toBeVisible();
    await expect(page.getByText('900 GiB are kept')).toBeVisible();
    await expect(page.getByRole('table', { name: 'Changes that fit' })).toContainText('4 machines like this');
    await expect(page.getByText('Configuration')).toBeHidden();
  });

  test('takes the figures of the store itself', async ({ page }) => {
    await page.goto('/#/plan');
    await page.getByRole('button', { name: 'Use this store' }).click();
    await expect(page.getByText('120 sensors')).toBeVisible();
    await expect.poll(() => params(page).get('own')).toBe('true');
  });
});

test.describe('plan rejected', () => {
  // A rejected request is an error in the browser's console too.
  base('an error shows the message of the server', async ({ page }) => {
    await page.goto('/#/plan?sensors=many');
    await expect(page.locator('.notice.severe')).toContainText('sensors: write a number');
  });
});

// A denied request is an error in the browser's console too.
base('a page without a token asks for one until it is right', async ({ page, request }) => {
  await request.post('/mock?scenario=locked');
  await page.goto('/');
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('keeps the token until this tab is closed');
  await dialog.getByLabel('Token').fill('wrong');
  await dialog.getByRole('button', { name: 'Continue' }).click();
  await expect(dialog).toContainText('rejected the token');
  await dialog.getByLabel('Token').fill(' right ');
  await page.keyboard.press('Enter');
  await expect(page.locator('.figure', { hasText: 'Sources' }).locator('.value').first()).toHaveText('104,312');
  await expect(dialog).toBeHidden();
  await page.reload();
  await expect(page.locator('.figure', { hasText: 'Sources' }).locator('.value').first()).toHaveText('104,312');
  // A link cannot send the token, so the page downloads the answer itself.
  await page.goto(ONE);
  const saved = page.waitForEvent('download');
  await page.getByRole('link', { name: 'CSV', exact: true }).click();
  expect((await saved).suggestedFilename()).toBe('points.csv');
  await request.post('/mock?scenario=calm');
});

test.describe('storage', () => {
  const value = (page: Page, label: string) => page.locator('.figure', { hasText: label }).locator('.value').first();

  test('draws every segment by lane, and tells of the one that is pointed at', async ({ page }) => {
    await page.goto('/');
    await page.getByRole('link', { name: 'Storage' }).click();
    await expect(page).toHaveTitle('Storage · Seiner');
    await expect(page.locator('.lane')).toHaveCount(5);
    await expect(page.getByRole('img', { name: 'Lane 4: 260 segments' })).toBeVisible();
    const paths = page.locator('.lane').nth(2).locator('path.live');
    await expect.poll(async () => ((await paths.getAttribute('d')) ?? '').match(/M/g)).toHaveLength(47);
    await page.locator('.lane').nth(2).locator('svg').hover({ position: { x: 2, y: 20 } });
    await expect(page.locator('.description')).toContainText('Segment 2:');
  });

  test('shows budget, wear, classes and decisions', async ({ page }) => {
    await page.goto('/#/storage');
    await expect(page.getByRole('meter', { name: 'Used share of the disk budget' })).toHaveAttribute('aria-valuenow', /^9\d$/);
    await expect(page.locator('.outlook')).toContainText('at this pace full in');
    await expect(value(page, 'Now')).toBeHidden();
    await page.getByText('Details').click();
    await expect(value(page, 'Now')).toHaveText('planing');
    await expect(page.getByRole('table', { name: 'Figures of merging' })).toBeVisible();
    await expect(value(page, 'Last hour')).toHaveText('1.00');
    await expect(value(page, 'A new device lasts')).not.toHaveText('–');
    await expect(page.getByRole('table', { name: 'Retention classes' })).toContainText('oldest dropped, priority 1');
    await expect(page.getByRole('table', { name: 'Last decisions' })).toContainText('dropped 2 dead segments unread');
    await expect(page.locator('.notice')).toHaveCount(0);
  });

  test('says what is wrong, and begins with nothing', async ({ page, request }) => {
    await request.post('/mock?scenario=sick');
    await page.goto('/#/storage');
    await expect(page.locator('.notice')).toHaveText([/Writes are rejected/, /Data was lost/, /2 segments or blocks are damaged/, /retention class "rings"/]);
    await expect(page.locator('.notice.severe')).toHaveCount(2);
    await page.getByText('Details').click();
    await expect(value(page, 'Now')).toHaveText('merging');
    await request.post('/mock?scenario=empty');
    await page.reload();
    await expect(page.locator('.lanes')).toContainText('No segment yet');
  });

  test('fits a phone', async ({ page }) => {
    await page.setViewportSize({ width: 390, height: 800 });
    await page.goto('/#/storage');
    await expect(page.locator('.lane')).toHaveCount(5);
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  });
});

test.describe('overview', () => {
  test('shows the figures and keeps them alive', async ({ page }) => {
    await page.goto('/');
    const value = (label: string) => page.locator('.figure', { hasText: label }).locator('.value').first();
    await expect(value('Sources')).toHaveText('104,312');
    await expect(value('Bytes per sample')).toHaveText('1.90');
    await expect(page.locator('.unsynced')).toContainText('every 100 ms');
    await expect(page.getByRole('meter', { name: 'Memory used of the budget' })).toHaveAttribute('aria-valuenow', '67');
    const samples = value('Samples accepted');
    const before = await samples.textContent();
    await expect(samples).not.toHaveText(before!);
    await expect(page.locator('.notice')).toHaveCount(0);
  });

  test('explains the durability', async ({ page }) => {
    await page.goto('/');
    const bubble = page.getByRole('tooltip', { includeHidden: true });
    await expect(bubble).toBeHidden();
    await page.getByRole('button', { name: 'What is the durability?' }).focus();
    await expect(bubble).toBeVisible();
    await expect(bubble).toContainText('every 100 ms');
  });

  test('draws the curves of this machine only, as rates where they are counters', async ({ page }) => {
    await page.goto('/');
    await expect(page.locator('.curve h2')).toHaveText(['CPU', 'Memory', 'Network', 'Disk', 'Written by the store', 'Load', 'Temperature']);
    await expect(page.locator('.curve', { hasText: 'CPU' }).locator('.key')).toContainText(/usage [\d.]+%/);
    await expect(page.locator('.curve', { hasText: 'Network' }).locator('.key')).toContainText(/rx [\d.]+ [KM]iB\/s/);
    await expect(page.locator('.curve canvas')).toHaveCount(7);
    await expect.poll(() => drawn(page, '--series-0')).toBe(true);
  });

  test('puts trouble in plain sight', async ({ page, request }) => {
    await request.post('/mock?scenario=sick');
    await page.goto('/');
    const notices = page.locator('.notice.severe');
    await expect(notices).toHaveCount(3);
    await expect(notices.first()).toContainText('a sync of journal-00012 failed: Input/output error');
    await expect(notices.nth(1)).toContainText('Data was lost: segment-00000031.log');
    await expect(notices.nth(2)).toContainText('of the disk are free');
    await expect(page.locator('.notice:not(.severe)')).toHaveText([/2 segments or blocks are damaged/, /retention class "rings"/, /memory budget is used up/, /Rule DiskFillsUp fails.*more than 64 MiB/]);
    await expect(page.getByRole('table', { name: 'Losses' }).locator('tbody tr')).toHaveText(/segment-00000031\.log.*the file is missing.*41,527/);
    await expect(page.locator('.figure.alarming')).toContainText('218');
  });

  test('lists the alerts, and shows the curve of a rule', async ({ page, request }) => {
    await page.goto('/');
    const rows = page.getByRole('table', { name: 'Alerts' }).locator('tbody tr');
    await expect(rows).toHaveText([/fires.*HostIsBusy.*host=anchor.*96\.25.*anchor has used/, /pending.*host=buoy.*91\.5/]);
    await expect(page.getByText('2 rules; 1 firing, 1 pending')).toBeVisible();
    await rows.first().getByRole('link').click();
    await expect(page).toHaveTitle('Explorer · Seiner');
    expect(params(page).get('promql')).toBe('host_load_load1');
    await expect(page.locator('.legend tbody tr').first()).toBeVisible();
    await request.post('/mock?scenario=empty');
    const asked = page.waitForResponse('**/prometheus/api/v1/rules');
    await page.goto('/');
    await asked;
    await expect(page.getByRole('region', { name: 'Counts' })).toBeVisible();
    await expect(page.getByRole('heading', { name: 'Alerts' })).toHaveCount(0);
  });

  test('says so when the server is gone, and recovers', async ({ page, request, expected }) => {
    expected.push('net::ERR_');
    await page.goto('/');
    await expect(page.locator('.figures').first()).toBeVisible();
    await request.post('/mock?scenario=gone');
    await expect(page.locator('.notice.severe')).toContainText('The server does not answer');
    await request.post('/mock?scenario=calm');
    await expect(page.locator('.notice')).toHaveCount(0);
  });

  test('an empty store shows how to write the first line', async ({ page, request }) => {
    await request.post('/mock?scenario=empty');
    await page.goto('/');
    await expect(page.locator('.welcome code')).toContainText("curl -i 'http://127.0.0.1:7671/write' --data-binary");
    await page.goto('/#/explorer');
    await expect(page.locator('.stage .welcome')).toBeVisible();
  });
});

test('a store with nothing but its own sensors shows it too, until somebody writes', async ({ page, request }) => {
  await request.post('/mock?scenario=young');
  await page.goto('/');
  await expect(page.locator('.welcome')).toContainText('own sensors');
  await expect(page.locator('.curve').first()).toBeVisible();
  await request.post('/mock?scenario=calm');
  await expect(page.locator('.welcome')).toHaveCount(0);
});

test.describe('explorer', () => {
  test('asks for as many points as fit, and draws them with their band', async ({ page }) => {
    const seen = queries(page);
    await page.goto(ONE);
    await expect(page.locator('.footer .facts')).toContainText(/step 2m · 72\d points · [\d,]+ samples · 1 series · answered in/);
    const width = (await plot(page).boundingBox())!.width;
    const asked = Number(seen[0]!.get('points'));
    expect(Math.abs(asked - width)).toBeLessThan(60);
    expect(seen[0]!.get('aggregate')).toBe('mean,min,max,count,last');
    await expect.poll(() => drawn(page, '--series-0')).toBe(true);
  });

  test('is built up from the keyboard: measurement, tag, fields', async ({ page }) => {
    await page.goto('/');
    await page.keyboard.press('/');
    await page.keyboard.type('cp');
    await page.keyboard.press('Enter');
    await expect(page.locator('.legend tbody tr')).toHaveCount(10);
    await page.getByRole('button', { name: 'Add a condition on a tag' }).click();
    await page.keyboard.type('co');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('option', { name: '3' })).toBeVisible();
    await page.keyboard.press('Enter');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Done' }).click();
    await expect(page.locator('.chip')).toContainText('core = 0, 1');
    await expect(page.locator('.legend tbody tr')).toHaveCount(4);
    await expect.poll(() => params(page).get('select')).toBe('host_cpu{core=~"0|1"}');
    await page.getByRole('button', { name: /^Fields/ }).click();
    await page.getByRole('option', { name: /idle/ }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await expect(page.locator('.legend tbody tr')).toHaveCount(8);
    await expect.poll(() => params(page).getAll('field').sort()).toEqual(['idle', 'usage']);
    await page.getByRole('button', { name: 'Drop the condition on core' }).click();
    await expect(page.locator('.legend tbody tr')).toHaveCount(20);
  });

  test('takes an Enter that comes before the list', async ({ page }) => {
    await page.route('**/api/v1/measurements*', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 700));
      await route.continue();
    });
    await page.goto('/');
    await page.keyboard.press('/');
    await page.keyboard.type('cp');
    await page.keyboard.press('Enter');
    await expect(page.locator('.legend tbody tr')).toHaveCount(10);
    await expect.poll(() => params(page).get('select')).toBe('host_cpu');
  });

  test('drag zooms and asks again; double click, Esc and the back button go back', async ({ page }) => {
    const seen = queries(page);
    await page.goto(ONE);
    await expect(page.locator('.facts')).toContainText('step 2m');
    await dragAcross(page, 0.25, 0.5);
    await expect(page.locator('.facts')).toContainText('step 30s');
    await expect.poll(() => Math.abs(length(page) / 3600e3 - 6)).toBeLessThan(0.2);
    await expect.poll(() => Number(seen.at(-1)!.get('to')) - Number(seen.at(-1)!.get('from'))).toBeLessThan(6.2 * 3600e9);
    await dragAcross(page, 0.25, 0.5);
    await expect(page.locator('.facts')).toContainText('step 5s');
    await plot(page).dblclick();
    await expect(page.locator('.facts')).toContainText('step 30s');
    await page.keyboard.press('Escape');
    await expect(page.locator('.facts')).toContainText('step 2m');
    await expect.poll(() => params(page).get('last')).toBe('24h');
    await page.goBack();
    await expect(page.locator('.facts')).toContainText('step 30s');
  });

  test('wheel zooms at the pointer, shift and drag pans, keys do both', async ({ page }) => {
    await page.goto('/#/explorer?select=host_cpu{host="anchor",core="all"}&field=usage&from=1790000000000&to=1790003600000');
    await expect(page.locator('.facts')).toContainText('1 series');
    const box = (await plot(page).boundingBox())!;
    await page.mouse.move(box.x, box.y + 40);
    await page.mouse.wheel(0, -300);
    await expect.poll(() => length(page)).toBeLessThan(3_000_000);
    await expect.poll(() => Math.abs(Number(params(page).get('from')) - 1790000000000)).toBeLessThan(20_000);
    const [from, zoomed] = [Number(params(page).get('from')), length(page)];
    await dragAcross(page, 0.2, 0.7, true);
    await expect.poll(() => Number(params(page).get('from'))).toBeLessThan(from - zoomed * 0.45);
    await expect.poll(() => Math.abs(length(page) - zoomed)).toBeLessThan(1);
    const panned = Number(params(page).get('from'));
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => Number(params(page).get('from'))).toBeCloseTo(panned + zoomed / 4, 0);
    await page.keyboard.press('-');
    await expect.poll(() => length(page)).toBeCloseTo(zoomed * 2, 0);
    await page.keyboard.press('+');
    await expect.poll(() => length(page)).toBeCloseTo(zoomed, 0);
  });

  test('follows, and stops following when zoomed', async ({ page }) => {
    const seen = queries(page);
    await page.goto('/#/explorer?select=host_load&field=load1&last=5m');
    await expect(page.locator('.facts')).toContainText('1 series');
    await page.keyboard.press('f');
    await expect.poll(() => params(page).get('follow')).toBe('1');
    const asked = seen.length;
    await expect.poll(() => seen.length).toBeGreaterThan(asked + 2);
    await dragAcross(page, 0.3, 0.6);
    await expect(page.getByRole('switch', { name: 'Follow' })).toHaveAttribute('aria-checked', 'false');
    await expect.poll(() => params(page).has('follow')).toBe(false);
  });

  test('the legend tells the values under the cursor, and hides series', async ({ page }) => {
    await page.goto('/#/explorer?select=host_cpu{host="anchor"}&field=usage&last=15m');
    await expect(page.locator('.legend tbody tr')).toHaveCount(5);
    await expect(page.locator('.legend .clock')).toHaveText('latest');
    const box = (await plot(page).boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 60);
    await expect(page.locator('.legend .clock')).toHaveText(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    await expect(page.locator('.legend .at').first()).toHaveText(/^\d+(\.\d+)?$/);
    const first = page.locator('.legend .series').first();
    await expect.poll(() => drawn(page, '--series-0')).toBe(true);
    await first.click();
    await expect(first).toHaveAttribute('aria-pressed', 'false');
    await page.mouse.move(5, 5);
    await expect.poll(() => drawn(page, '--series-0')).toBe(false);
  });

  test('a limit on series is shown, and can be raised', async ({ page }) => {
    await page.goto('/#/explorer?select=meter&field=power&last=1h');
    await expect(page.locator('.notice')).toContainText('The first 50 series are shown; 120 sources fit.');
    await page.getByRole('button', { name: 'Show 200' }).click();
    await expect(page.locator('.legend tbody tr')).toHaveCount(120);
    await expect(page.locator('.notice')).toHaveCount(0);
  });

  test('booleans are steps, texts are ribbons of states', async ({ page }) => {
    await page.goto('/#/explorer?select=pump&field=pressure&field=running&field=state&last=6h');
    await expect(page.locator('.pane h3').filter({ visible: true })).toHaveText(['values', 'on or off']);
    await expect(page.locator('.legend .at').filter({ hasText: /^(true|false)$/ })).toHaveCount(2);
    await expect(page.locator('.ribbon')).toHaveCount(2);
    await expect.poll(() => page.locator('.ribbon span').count()).toBeGreaterThan(20);
    await expect(page.locator('.states tbody tr').first()).toContainText(/idle|priming|running|flushing/);
  });

  test('a chart for each field', async ({ page }) => {
    await page.goto('/#/explorer?select=host_mem{host="anchor"}&field=used&field=used_percent&last=1h');
    await expect(page.locator('.pane')).toHaveCount(1);
    await page.getByRole('switch', { name: 'Split by field' }).click();
    await expect(page.locator('.pane')).toHaveCount(2);
    await expect(page.locator('.pane h3')).toHaveText(['used', 'used_percent']);
  });

  test('the links take the same query away', async ({ page, request }) => {
    await page.goto(ONE);
    const href = await page.getByRole('link', { name: 'JSON' }).getAttribute('href');
    const answer = (await (await request.get(href!)).json()) as { series: { field: string; mean: number[] }[] };
    expect(answer.series.map((series) => series.field)).toEqual(['usage']);
    expect(answer.series[0]!.mean.length).toBeGreaterThan(700);
  });

  test('shows errors of the server as they are', async ({ page, request, expected }) => {
    expected.push('503');
    await request.post('/mock?scenario=refusing');
    await page.goto(ONE);
    await expect(page.locator('.notice.severe')).toHaveText('the store is closed');
    await request.post('/mock?scenario=calm');
    await page.keyboard.press('r');
    await expect(page.locator('.notice')).toHaveCount(0);
    await expect(page.locator('.facts')).toContainText('1 series');
  });

  test('a custom interval', async ({ page }) => {
    await page.goto(ONE);
    await page.getByRole('button', { name: 'Custom' }).click();
    await page.getByLabel('From').fill('2026-09-21T10:00:00');
    await page.getByLabel('To', { exact: true }).fill('2026-09-21T11:00:00');
    await page.getByRole('button', { name: 'Apply' }).click();
    await expect(page.locator('.window')).toHaveText('2026-09-21 10:00:00 → 2026-09-21 11:00:00 · 1h');
    await expect.poll(() => length(page)).toBe(3600e3);
  });
});

test('the theme follows the system until it is chosen, and is remembered', async ({ page }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.goto('/');
  const theme = () => page.locator('html').getAttribute('data-theme');
  await expect.poll(theme).toBe('dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await expect.poll(theme).toBe('light');
  await page.keyboard.press('t');
  await expect.poll(theme).toBe('dark');
  await page.reload();
  await expect.poll(theme).toBe('dark');
});

test('help opens and closes', async ({ page }) => {
  await page.goto('/');
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toBeHidden();
});

test('fingers move and zoom', async ({ browser }) => {
  const context = await browser.newContext({ hasTouch: true, viewport: { width: 375, height: 760 } });
  const page = await context.newPage();
  await page.goto('/#/explorer?select=host_load&field=load1&from=1790000000000&to=1790003600000');
  await expect(page.locator('.facts')).toContainText('1 series');
  const box = (await plot(page).boundingBox())!;
  const session = await context.newCDPSession(page);
  const fingers = async (type: 'touchStart' | 'touchMove' | 'touchEnd', ...places: number[]): Promise<void> => {
    await session.send('Input.dispatchTouchEvent', { type, touchPoints: places.map((place, id) => ({ id, x: box.x + box.width * place, y: box.y + 80 })) });
  };
  await fingers('touchStart', 0.2);
  await fingers('touchMove', 0.45);
  await fingers('touchMove', 0.7);
  await fingers('touchEnd');
  await expect.poll(() => Math.abs(Number(params(page).get('from')) - (1790000000000 - 1800e3))).toBeLessThan(60e3);
  await expect.poll(() => length(page)).toBeCloseTo(3600e3, 0);
  await fingers('touchStart', 0.4, 0.6);
  await fingers('touchMove', 0.35, 0.65);
  await fingers('touchMove', 0.3, 0.7);
  await fingers('touchEnd');
  await expect.poll(() => Math.abs(length(page) - 1800e3)).toBeLessThan(60e3);
  await context.close();
});

for (const path of ['/', '/#/explorer?select=host_cpu{host="anchor"}&field=usage&last=1h']) {
  test(`fits a phone: ${path.slice(0, 12)}`, async ({ page }) => {
    await page.setViewportSize({ width: 375, height: 760 });
    await page.goto(path);
    await expect(page.locator('canvas').first()).toBeVisible();
    await page.waitForTimeout(500);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow).toBeLessThanOrEqual(0);
  });
}
