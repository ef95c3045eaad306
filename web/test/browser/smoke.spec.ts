// Tests that pass against the mock and against a real server. On a real server, the tests first write a few lines
// under a measurement of their own.

import { expect, test } from '@playwright/test';

const live = process.env['SEINER_URL'] !== undefined;
const measurement = live ? `web_smoke_${Date.now().toString(36)}` : 'pump';

test.describe.configure({ mode: 'serial' });

test.beforeAll(async ({ request }) => {
  if (!live) {
    await request.post('/mock?scenario=calm');
    return;
  }
  const now = BigInt(Date.now()) * 1_000_000n;
  const lines = Array.from({ length: 600 }, (_, i) => {
    const time = now - BigInt(600 - i) * 1_000_000_000n;
    return ['north', 'south'].map(
      (station, k) => `${measurement},station=${station} pressure=${(2.4 + Math.sin(i / 40 + k)).toFixed(3)},running=${i % 100 < 60},count=${i}i,state="${['idle', 'running'][Math.floor(i / 120) % 2]}" ${time}`,
    );
  }).flat();
  const answer = await request.post('/write', { data: lines.join('\n') });
  expect(answer.status(), await answer.text()).toBe(204);
});

test('the overview shows figures and no error', async ({ page }) => {
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto('/');
  const value = (label: string) => page.locator('.figure', { hasText: label }).locator('.value').first();
  for (const label of ['Sources', 'Series', 'Samples accepted', 'Rows in buffers', 'Blocks sealed', 'Lines rejected', 'Requests in flight', 'Budget', 'Journal', 'Free']) {
    await expect(value(label), label).toHaveText(/^[\d,.]+( .*)?$/);
  }
  await expect(page.locator('.unsynced .badge')).not.toHaveText('–');
  await expect(page.locator('.about')).toContainText(/Seiner \d/);
  await expect(page.locator('.notice.severe')).toHaveCount(0);
  expect(errors).toEqual([]);
});

test('the explorer finds the measurement and draws all its kinds of fields', async ({ page }) => {
  await page.goto('/#/explorer');
  await page.keyboard.press('/');
  await page.keyboard.type(measurement);
  await page.getByRole('option', { name: measurement, exact: true }).click();
  await expect(page.locator('.facts')).toContainText('series');
  await page.goto(`/#/explorer?select=${measurement}&field=pressure&field=running&field=state&last=1h`);
  await expect(page.locator('.legend .at').filter({ hasText: /^[\d.]+$/ })).toHaveCount(2);
  await expect(page.locator('.legend .at').filter({ hasText: /^(true|false)$/ })).toHaveCount(2);
  await expect(page.locator('.ribbon')).toHaveCount(2);
  await expect(page.locator('.notice')).toHaveCount(0);
});

test('tags narrow, zoom asks for finer steps', async ({ page }) => {
  await page.goto(`/#/explorer?select=${measurement}{station="north"}&field=pressure&last=15m`);
  await expect(page.locator('.legend tbody tr')).toHaveCount(1);
  const before = await page.locator('.facts').textContent();
  const box = (await page.locator('.u-over').first().boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.5, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 50, { steps: 5 });
  await page.mouse.up();
  await expect(page.locator('.facts')).not.toHaveText(before!);
  await expect(page.locator('.facts')).toContainText(/step (1s|500ms|200ms|100ms)/);
});

test('every link to take away answers', async ({ page, request }) => {
  await page.goto(`/#/explorer?select=${measurement}&field=pressure&last=1h`);
  for (const [name, type] of [['CSV', 'text/csv'], ['JSON', 'application/json'], ['Arrow', 'arrow'], ['all samples', 'text/csv']] as const) {
    const href = await page.getByRole('link', { name, exact: true }).getAttribute('href');
    const answer = await request.get(href!);
    expect(answer.status(), `${name}: ${await answer.text()}`).toBe(200);
    if (live) expect(answer.headers()['content-type']).toContain(type);
    expect((await answer.body()).length).toBeGreaterThan(100);
  }
});

test('a view becomes a panel of a dashboard, which rejects a change of an older revision', async ({ page, request }) => {
  const name = `Smoke ${Date.now().toString(36)}`;
  await page.goto(`/#/explorer?select=${measurement}&field=pressure&last=1h&events=${measurement}&event=state`);
  await expect(page.locator('.events summary')).toContainText('events of');
  await page.getByRole('button', { name: 'Save as panel…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Save as panel' });
  await expect(dialog.getByLabel('Dashboard')).toBeEnabled();
  await dialog.getByLabel('Dashboard').selectOption('New dashboard…');
  await dialog.getByLabel('Name').fill(name);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByRole('link', { name }).click();
  await expect(page.locator('.panel .legend tbody tr').first()).toBeVisible();
  await expect(page.locator('.panel .events')).toBeVisible();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.locator('.panel-controls select').selectOption('large');
  const path = `/api/v1/dashboards/${encodeURIComponent(name)}`;
  const other = await request.put(path, { headers: { 'if-match': '"1"' }, data: { version: 1, panels: [] } });
  expect([other.status(), other.headers()['etag']]).toEqual([200, '"2"']);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expect(page.locator('.notice.severe')).toContainText('somebody else changed');
  await page.getByRole('button', { name: 'Discard my changes and read it' }).click();
  await expect(page.getByText('This dashboard has no panels.')).toBeVisible();
  await page.getByRole('button', { name: 'Edit' }).click();
  page.once('dialog', (confirm) => void confirm.accept());
  await page.getByRole('button', { name: 'Delete…' }).click();
  await expect(page).toHaveTitle('Dashboards · Seiner');
  expect((await request.get(path)).status()).toBe(404);
});

test('an error of the server is shown in its own words', async ({ page, request }) => {
  test.skip(!live, 'the mock has its own test');
  await page.goto(`/#/explorer?select=${measurement}{station=~"("}&field=pressure&last=1h`);
  const answer = (await (await request.get(`/api/v1/fields?select=${encodeURIComponent(`${measurement}{station=~"("}`)}`)).json()) as { error: string };
  await expect(page.locator('.notice.severe')).toHaveText(answer.error);
});
