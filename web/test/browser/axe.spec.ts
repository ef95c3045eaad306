// Check of every view for barriers, by the rules of axe: names, roles, contrast, order of headings.

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { AxeResults } from 'axe-core';
import { expect, test } from './fixture';

const AXE = fileURLToPath(import.meta.resolve('axe-core/axe.min.js'));

const VIEWS: [name: string, hash: string, ready: string][] = [
  ['overview', '#/', '.curve canvas'],
  ['find', '#/explorer', '.hits .last'],
  ['explorer', '#/explorer?select=host_cpu{host="anchor"}&field=usage&last=1h&combine=max&by=core', '.legend tbody tr'],
  ['states', '#/explorer?select=pump&field=pressure&field=running&field=state&last=6h', '.ribbon'],
  ['events', '#/explorer?select=host_load&field=load1&last=1h&events=deploy&event=note', '.events summary'],
  ['SQL', '#/explorer?sql=SELECT+t+FROM+host_cpu', '.legend tbody tr'],
  ['SQL rows', '#/explorer?sql=SELECT+count(*)+FROM+host_cpu', '.rows tbody tr'],
  ['query line', '#/explorer?promql=host_load_load1&last=1h', '.legend tbody tr'],
  ['storage', '#/storage', '.lane'],
  ['plan', '#/plan?sensors=1e5', '.plan table'],
];

for (const theme of ['light', 'dark'] as const) {
  for (const [name, hash, ready] of VIEWS) {
    test(`no barriers: ${name}, ${theme}`, async ({ page }) => {
      await page.emulateMedia({ colorScheme: theme });
      await page.goto(`/${hash}`);
      await expect(page.locator(ready).first()).toBeVisible();
      await page.evaluate(await readFile(AXE, 'utf8'));
      const { violations } = await page.evaluate(() => (window as unknown as { axe: { run: () => Promise<AxeResults> } }).axe.run());
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${String(node.target)} ${node.failureSummary}`).join('; ')}`)).toEqual([]);
    });
  }
}
