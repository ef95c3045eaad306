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
  ['dashboards', '#/dashboards', '.dashboards table'],
  ['dashboard', '#/d/Boat', '.panel .legend tbody tr'],
  ['query line', '#/explorer?promql=host_load_load1&last=1h', '.legend tbody tr'],
  ['storage', '#/storage', '.lane'],
  ['plan', '#/plan?sensors=1e5', '.plan table'],
];

/** Buttons that open another view of the same address. */
const OPENED: [name: string, hash: string, button: string, ready: string][] = [
  ['editor', '#/d/Boat', 'Edit', '.panel-controls input'],
  ['save as panel', '#/explorer?select=host_cpu&field=usage', 'Save as panel…', 'dialog[open] select:enabled'],
];

for (const theme of ['light', 'dark'] as const) {
  for (const [name, hash, ready, button] of [...VIEWS, ...OPENED.map(([name, hash, button, ready]) => [name, hash, ready, button] as const)]) {
    test(`no barriers: ${name}, ${theme}`, async ({ page }) => {
      const panels = ['select=host_cpu&field=usage', 'select=pump&field=state'].map((query, i) => ({ title: `Panel ${i}`, query, size: 'medium' }));
      await page.request.put('/api/v1/dashboards/Boat', { data: { version: 1, panels } });
      await page.emulateMedia({ colorScheme: theme });
      await page.goto(`/${hash}`);
      if (button !== undefined) await page.getByRole('button', { name: button, exact: true }).click();
      await expect(page.locator(ready).first()).toBeVisible();
      await page.evaluate(await readFile(AXE, 'utf8'));
      const { violations } = await page.evaluate(() => (window as unknown as { axe: { run: () => Promise<AxeResults> } }).axe.run());
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${String(node.target)} ${node.failureSummary}`).join('; ')}`)).toEqual([]);
    });
  }
}
