// Search, aggregation, queries, events and display of the explorer, against the mock.

import { drawn, expect, hash, params, plot, test } from './fixture';

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
    await expect.poll(() => params(page).get('select')).toBe('host_temp{sensor="nvme"}');
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

test('the stored times are requested once for a selection', async ({ page }) => {
  const asked: (string | null)[] = [];
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.pathname === '/api/v1/summary') asked.push(url.searchParams.get('select'));
  });
  await page.goto('/#/');
  await expect(page.locator('.curve canvas').first()).toBeVisible();
  expect(asked).toEqual([]);
  await page.goto('/#/explorer?select=host_mem&field=used&last=1h');
  await expect(page.locator('.stored')).toContainText('Stored: ');
  await page.getByRole('switch', { name: 'Log' }).click();
  await page.getByRole('button', { name: 'Last 6h' }).click();
  await expect(page.locator('.window')).toContainText('6h');
  await expect(page.locator('.stored')).toContainText('Stored: ');
  await expect.poll(() => asked).toEqual(['host_mem']);
  await page.getByRole('button', { name: 'Reload' }).click();
  await expect.poll(() => asked).toEqual(['host_mem', 'host_mem']);
});

test.describe('combine', () => {
  test('sums series by a tag, and takes the rate of a counter', async ({ page }) => {
    await page.goto('/#/explorer?select=host_cpu&field=usage&last=1h');
    await expect(page.locator('.legend tbody tr')).toHaveCount(10);
    await page.getByLabel('Combine series').selectOption('max');
    await expect(page.locator('.legend tbody tr')).toHaveCount(1);
    await expect(page.locator('.heading h2')).toHaveText('host_cpu max of usage');
    await page.getByLabel('Combine series').press('Home');
    await expect(page.locator('.legend tbody tr')).toHaveCount(10);
    await expect(page.getByLabel('Combine series')).toBeFocused();
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowUp');
    await expect(page.locator('.heading h2')).toHaveText('host_cpu 95th percentile of usage');
    await page.getByLabel('Combine series').selectOption('max');
    await page.getByRole('button', { name: 'A curve for each value of' }).click();
    await page.getByRole('option', { name: 'host' }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await expect(page.locator('.legend .series')).toHaveText(['anchor', 'buoy']);
    await expect.poll(() => params(page).get('combine')).toBe('max');
    await expect.poll(() => params(page).get('by')).toBe('host');
    await page.goto('/#/explorer?select=host_net&field=rx_bytes&last=1h');
    await page.getByRole('switch', { name: 'Rate' }).click();
    await expect(page.locator('.heading h2')).toHaveText('host_net rate of rx_bytes');
    await expect(page.locator('.legend .mean').last()).toHaveText(/^9\d\d,\d{3}/);
  });
});

test.describe('query line', () => {
  test('begins with the query of the chart, completes and draws', async ({ page }) => {
    await page.goto('/#/explorer?select=host_cpu{core="all"}&field=usage&last=15m&combine=mean');
    await expect(page.locator('.legend tbody tr')).toHaveCount(1);
    await page.getByRole('button', { name: 'PromQL…' }).click();
    const line = page.getByRole('combobox', { name: 'PromQL' });
    await expect(line).toHaveValue('avg(host_cpu_usage{core="all"})');
    await expect(line).toBeFocused();
    await line.fill('');
    await line.pressSequentially('host_mem_u');
    await expect(page.locator('.completions').getByRole('option')).toHaveText([/host_mem_used/, /host_mem_used_percent/]);
    await line.press('ArrowDown');
    await line.press('Enter');
    await expect(line).toHaveValue('host_mem_used');
    await line.pressSequentially('{ho');
    await expect(page.locator('.completions').getByRole('option')).toHaveText(/host/);
    await line.press('Tab');
    await expect(line).toHaveValue('host_mem_used{host');
    await line.pressSequentially('="b');
    await expect(page.locator('.completions').getByRole('option')).toHaveText(/buoy/);
    await line.press('Tab');
    await line.pressSequentially('"}');
    await line.press('Enter');
    await expect(page.locator('.heading h2')).toHaveText('host_mem_used');
    await expect(page.locator('.legend tbody tr')).toHaveCount(1);
    await expect.poll(() => params(page).get('promql')).toBe('host_mem_used{host="buoy"}');
    await page.getByRole('button', { name: 'Close' }).click();
    await expect(line).toBeHidden();
    await expect(page.locator('.heading h2')).toHaveText('host_cpu mean of usage');
  });

  test('shows the error of the server at the line', async ({ page, expected }) => {
    expected.push('400');
    await page.goto('/#/explorer?promql=sum(host_cpu_usage');
    await page.getByRole('combobox', { name: 'PromQL' }).press('Enter');
    await expect(page.getByRole('alert')).toContainText('unclosed left parenthesis');
    await page.getByRole('combobox', { name: 'PromQL' }).fill('sum(host_cpu_usage)');
    await page.getByRole('button', { name: 'Run' }).click();
    await expect(page.getByRole('alert')).toBeHidden();
    await expect(page.locator('.legend tbody tr')).toHaveCount(1);
  });

  test('the commands ask the same', async ({ page }) => {
    await page.goto('/#/explorer?select=host_cpu{core="all"}&field=usage&last=15m&step=10s');
    await page.getByText('Commands').click();
    const lines = page.locator('.commands code');
    await expect(lines).toHaveText([
      `seiner query 'host_cpu{core="all"}' --fields usage --from -15m --step 10s --aggregate mean,min,max,count,last --limit 50 --server http://127.0.0.1:7671`,
      /^curl -G http:\/\/127.0.0.1:7671\/api\/v1\/query --data-urlencode 'select=host_cpu\{core="all"\}' --data-urlencode fields=usage --data-urlencode from=-15m/,
    ]);
    await page.goto('/#/explorer?promql=host_load_load1&last=15m');
    await expect(lines).toHaveText([/^curl -G http:\/\/127.0.0.1:7671\/prometheus\/api\/v1\/query_range --data-urlencode query=host_load_load1 --data-urlencode start=\d+/]);
  });
});

test('a table has the drawn values', async ({ page }) => {
  await page.goto('/#/explorer?select=host_mem&field=used_percent&last=15m&unit=percent');
  await page.getByText('Table', { exact: true }).click();
  const rows = page.getByRole('table', { name: 'Values' }).locator('tr');
  await expect(rows.first()).toHaveText('timeanchorbuoy');
  await expect(rows.nth(1)).toHaveText(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[\d.]+ %[\d.]+ %$/);
  await expect.poll(() => rows.count()).toBeGreaterThan(300);
});

test('a field has the second axis, without the unit', async ({ page }) => {
  await page.goto('/#/explorer?select=host_mem{host="anchor"}&field=used&field=used_percent&last=15m&unit=bytes');
  await page.getByRole('button', { name: 'Fields on the right axis' }).click();
  await page.getByRole('option', { name: 'used_percent' }).click();
  await page.getByRole('button', { name: 'Done' }).click();
  await expect(page.locator('.legend tr', { hasText: 'right axis' }).locator('.at')).toHaveText(/^[\d.]+$/);
  await expect(page.locator('.legend tr', { hasText: /^used\d/ }).locator('.at')).toHaveText(/ GiB$/);
  await expect.poll(() => params(page).getAll('right')).toEqual(['used_percent']);
  await expect.poll(() => drawn(page, '--series-1')).toBe(true);
});

test.describe('display', () => {
  test.use({ timezoneId: 'Asia/Kolkata' });

  test('units, a logarithmic axis and UTC', async ({ page }) => {
    await page.goto('/#/explorer?select=host_mem{host="anchor"}&field=used&from=1790000000000&to=1790003600000');
    await expect(page.locator('.window')).toContainText('2026-09-21 19:43:20');
    await page.getByLabel('Unit').selectOption('bytes');
    await expect(page.locator('.legend .at')).toHaveText(/ GiB$/);
    await page.getByRole('switch', { name: 'Log' }).click();
    await page.getByRole('switch', { name: 'UTC' }).click();
    await expect(page.locator('.window')).toContainText('2026-09-21 14:13:20');
    await expect(page.getByRole('switch', { name: 'UTC' })).toBeFocused();
    await expect.poll(() => drawn(page, '--series-0')).toBe(true);
    await expect.poll(() => hash(page)).toContain('log=1&utc=1&unit=bytes');
    await page.reload();
    await expect(page.getByRole('switch', { name: 'Log' })).toHaveAttribute('aria-checked', 'true');
    await expect(page.locator('.legend .at')).toHaveText(/ GiB$/);
  });
});

test.describe('events', () => {
  test('texts are lines over the chart, with their text at the cursor and in a list', async ({ page }) => {
    await page.goto('/#/explorer?select=host_load&field=load1&last=1h');
    await page.getByRole('button', { name: 'Texts to draw as events' }).click();
    await page.getByRole('option', { name: 'deploy note' }).click();
    await expect(page.locator('.events summary')).toHaveText(/^1[0-4] events of deploy note$/);
    await expect.poll(() => [params(page).get('events'), params(page).get('event')]).toEqual(['deploy', 'note']);
    await expect.poll(() => drawn(page, '--event')).toBe(true);
    await page.locator('.events summary').click();
    await expect(page.getByRole('table', { name: 'Events' }).locator('tbody tr').first()).toHaveText(/(web|api) \d+ deployed$/);
    const box = (await page.locator('.pane .u-over').boundingBox())!;
    const now = Date.now();
    const time = Math.floor((now - 600e3) / 600e3) * 600e3;
    await page.mouse.move(box.x + box.width * (1 - (now - time) / 3600e3), box.y + 60);
    await expect(page.locator('.mark-text')).toHaveText(/web \d+ deployed/);
    await page.getByRole('button', { name: 'Drop the events' }).click();
    await expect(page.locator('.events')).toHaveCount(0);
    await expect.poll(() => params(page).get('events')).toBeNull();
  });

  test('says how many events are left out', async ({ page }) => {
    await page.goto('/#/explorer?select=host_load&field=load1&last=24h&events=deploy&event=note');
    await expect(page.locator('.left-out')).toHaveText(/^The newest \d+ are drawn; (1[89]\d|2\d\d) earlier events are left out/);
  });
});

test.describe('SQL', () => {
  test('rows are a table, and curves if they begin with a time', async ({ page }) => {
    await page.goto(`/#/explorer?select=host_cpu%7Bcore%3D%22all%22%7D&field=usage&last=1h`);
    await page.getByRole('button', { name: 'SQL…' }).click();
    const line = page.getByRole('textbox', { name: 'SQL' });
    await expect(line).toHaveValue('SELECT time, usage FROM host_cpu WHERE time BETWEEN $from AND $to ORDER BY time LIMIT 1000');
    await expect(line).toBeFocused();
    await expect(page.locator('.pane .legend .series')).toHaveText(['anchor', 'buoy']);
    await expect(page.locator('.facts')).toContainText(/1(18|20) rows/);
    await page.locator('.stage summary').click();
    await expect(page.getByRole('table', { name: 'Rows' }).locator('tr').first()).toHaveText('thostusage');
    await line.fill('SELECT host,\ncount(*) AS n FROM host_cpu GROUP BY host');
    await expect.poll(() => line.evaluate((field) => field.scrollHeight - field.clientHeight)).toBeLessThanOrEqual(1);
    await line.press('Enter');
    await expect(page.getByRole('table', { name: 'Rows' }).locator('tr')).toHaveText(['hostn', 'anchor1,800', 'buoy1,800']);
    await expect.poll(() => params(page).get('sql')).toContain('count(*)');
    await expect(page.locator('.plot')).toHaveCount(0);
    await page.getByText('Commands').click();
    await expect(page.locator('.commands code')).toContainText('/api/v1/sql');
    await page.getByRole('button', { name: 'Close' }).click();
    await expect(page.locator('.heading h2')).toHaveText('host_cpu usage');
  });

  test('errors are shown at the line, and the command that adds SQL', async ({ page, request, expected }) => {
    expected.push('400', '503');
    await page.goto('/#/explorer?sql=SELECT+*+FROM+nope');
    await expect(page.getByRole('alert')).toContainText("table 'nope' not found");
    await request.post('/mock?scenario=young');
    await page.getByRole('button', { name: 'Run' }).click();
    await expect(page.getByRole('alert')).toContainText('build it with `make sql`');
  });
});
