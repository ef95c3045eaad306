import { afterEach, expect, test, vi } from 'vitest';
import { add } from '../../src/dashboards/save-panel';
import { clean, emptyDashboard, interval, moved, nameFault, panelOf, refreshOf, stateOf, titleOf } from '../../src/dashboards/document';
import { queue } from '../../src/dashboards/queue';
import { emptyExplorer, read, readExplorer, write } from '../../src/location';

afterEach(() => vi.unstubAllGlobals());

const state = readExplorer('select=host_cpu{host="a"}&field=usage&last=6h&combine=max&by=core&unit=percent&log=1&events=deploy&event=note&follow=1');

test('a panel has the state of the explorer without its interval', () => {
  const panel = panelOf(state, 'CPU', 'small');
  expect(panel.query).not.toMatch(/last|follow/);
  const last = { kind: 'last', ms: 300e3 } as const;
  expect(stateOf(panel, last)).toEqual({ ...state, interval: last, follow: false });
  const sql = { ...emptyExplorer(), sql: "SELECT 'a & b' = $from" };
  expect(stateOf(panelOf(sql, '', 'large'), last).sql).toBe(sql.sql);
});

test('a document of any JSON can be shown', () => {
  for (const odd of [null, 7, 'x', [], { panels: 7 }, { panels: [null, 3, 'x'] }]) expect(clean(odd)).toEqual(emptyDashboard());
  const found = clean({ version: 9, interval: 'last=never', refresh: '1ms', panels: [{ title: 7, query: 'select=a', size: 'huge' }], more: 1 });
  expect(found).toEqual({ ...emptyDashboard(), panels: [{ title: '', query: 'select=a', size: 'medium' }] });
  expect(clean({ interval: 'from=1000&to=2000', refresh: '30s' })).toMatchObject({ interval: 'from=1000&to=2000', refresh: '30s' });
  expect(interval('from=1000&to=2000')).toEqual({ kind: 'fixed', from: 1000, to: 2000 });
  expect(['30s', '', '0s', 'x', '100ms'].map(refreshOf)).toEqual(['30s', '', '', '', '']);
});

test('panels move within their list', () => {
  const panels = ['a', 'b', 'c'].map((title) => ({ title, query: '', size: 'small' as const }));
  const names = (from: number, by: number) => moved(panels, from, by).map((panel) => panel.title).join('');
  expect([names(0, 1), names(2, -1), names(0, -1), names(2, 9)]).toEqual(['bac', 'acb', 'abc', 'abc']);
});

test('names are those that the server accepts', () => {
  for (const name of ['a', 'Küche 2', 'line-1_b.c (old)']) expect(nameFault(name)).toBeNull();
  for (const name of ['', ' a', 'a/b', '..', '<b>', 'x'.repeat(101)]) expect(nameFault(name), name).not.toBeNull();
  expect(titleOf(state)).toBe('host_cpu{host="a"} usage');
});

test('the address of a dashboard has its name, and an interval if it differs', () => {
  const view = { name: 'Küche & 2', interval: null, refresh: null };
  expect(write({ page: 'dashboard', view })).toBe('#/d/K%C3%BCche%20%26%202');
  for (const one of [view, { ...view, interval: { kind: 'last', ms: 300e3 } as const, refresh: '' }]) expect(read(write({ page: 'dashboard', view: one }))).toEqual({ page: 'dashboard', view: one });
  expect(read('#/d/')).toEqual({ page: 'overview' });
  expect(read('#/d/%E0%A4%A')).toMatchObject({ page: 'dashboard' });
  expect(read('#/dashboards')).toEqual({ page: 'dashboards' });
});

test('tasks wait for their turn, and a failed one frees its place', async () => {
  const run = queue(2);
  let [running, most] = [0, 0];
  const task = (fails: boolean) => run(async () => {
    most = Math.max(most, (running += 1));
    await new Promise((resolve) => setTimeout(resolve, 1));
    running -= 1;
    if (fails) throw new Error('no');
    return 1;
  });
  const results = await Promise.all([true, false, true, false, false].map((fails) => task(fails).catch(() => 0)));
  expect(results).toEqual([0, 1, 0, 1, 1]);
  expect(most).toBe(2);
});

test('a panel is added to the newer document after a conflict', async () => {
  const sent: { method: string; match: string | undefined; body: string }[] = [];
  let revision = 1;
  vi.stubGlobal('sessionStorage', { getItem: () => null });
  vi.stubGlobal('fetch', (_: string, { method, headers, body }: { method: string; headers: Record<string, string>; body: string }) => {
    if (method === 'GET') return Promise.resolve(new Response(JSON.stringify({ ...emptyDashboard(), panels: [{ title: `${revision}` }] }), { headers: { etag: `"${revision}"` } }));
    sent.push({ method, match: headers['if-match'], body });
    if (sent.length > 1) return Promise.resolve(new Response('{}', { headers: { etag: '"9"' } }));
    revision = 2;
    return Promise.resolve(new Response('{"error":"somebody else"}', { status: 412 }));
  });
  await add('a', false, state, 'CPU', 'small');
  expect(sent.map((one) => one.match)).toEqual(['"1"', '"2"']);
  expect(JSON.parse(sent[1]!.body).panels.map((panel: { title: string }) => panel.title)).toEqual(['2', 'CPU']);
});
