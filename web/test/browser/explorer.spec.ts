// Search, aggregation, queries and display of the explorer, against the mock.

import { expect, params, plot, test } from './fixture';

test.describe('find', () => {
  test('finds measurements, values of tags and fields, with the last value and a curve', async ({ page }) => {
    await page.goto('/#/explorer');
    const hits = page.locator('.hits li');
    await expect(hits.filter({ hasText: 'host_cpu' })).toContainText('10 sources · 2 fields · by core (5), host (2)');
    await expect(hits.filter({ hasText: 'host_cpu' }).locator('.last')).toHaveText(/^[\d.]+$/);
    await expect(hits.filter({ hasText: 'host_cpu' }).locator('.sparkline path')).toHaveAttribute('d', /^M[\d.]+ [\d.]+L/);
    await page.getByRole('searchbox', { name: 'Find data' }).fill('rx');
    await expect(hits).toHaveCount(1);
    await expect(page.getByRole('combobox', { name: 'Field of host_net' })).toHaveValue('rx_bytes');
    await page.getByRole('searchbox', { name: 'Find data' }).fill('nvme');
    await expect(hits).toHaveText([/host_disk\s*device=nvme0/, /host_temp\s*sensor=nvme/]);
    await page.getByRole('button', { name: 'host_temp sensor=nvme' }).click();
    await expect(page.locator('.legend tbody tr')).toHaveCount(1);
    expect(params(page).get('select')).toBe('host_temp{sensor="nvme"}');
    await page.getByRole('button', { name: 'Find data…' }).click();
    await expect(hits).toHaveCount(2);
  });

  test('what is found is shown although it is old', async ({ page }) => {
    await page.goto('/#/explorer?last=1h');
    await page.getByRole('searchbox', { name: 'Find data' }).fill('elm');
    await page.getByRole('button', { name: 'harvest farm=Elm & Co' }).click();
    await expect(page.locator('.facts')).toContainText('1 series');
    await expect(page.getByRole('button', { name: 'All' })).toHaveAttribute('aria-pressed', 'true');
    await expect(page.locator('.stored')).toHaveText('Stored: 2026-08-01 00:00:00 → 2026-08-02 00:00:00');
  });

  test('an empty chart says where samples are, and All shows them', async ({ page }) => {
    await page.goto('/#/explorer?select=harvest&last=1h');
    await expect(page.locator('.stage')).toContainText('There are some from 2026-08-01 00:00:00 to 2026-08-02 00:00:00.');
    await page.getByRole('button', { name: 'Show them' }).click();
    await expect(page.locator('.facts')).toContainText('1 series');
    await page.goto('/#/explorer?select=harvest&last=6h');
    await page.getByRole('button', { name: 'All' }).click();
    await expect(page.locator('.facts')).toContainText('1 series');
    await expect(plot(page)).toBeVisible();
  });
});
