import { expect, test } from 'vitest';
import { emptyExplorer, read, write, type ExplorerState, type PageState } from '../../src/location';

const explorer = (change: Partial<ExplorerState>): PageState => ({ page: 'explorer', explorer: { ...emptyExplorer(), ...change } });

test('every state survives the address', () => {
  const states: PageState[] = [
    { page: 'overview' },
    { page: 'storage' },
    { page: 'plan', demand: {} },
    { page: 'plan', demand: { sensors: '1e6', class: 'raw:90%:30d:accel{axis="x"}; rest:10%:1y', own: 'true' } },
    explorer({}),
    explorer({ selector: { measurement: 'cpu & co', filters: [{ tag: 'host', operator: '=', values: ['a,b', 'ü#?/%'] }] }, fields: ['usage', 'a,b', 'x=y&z'] }),
    explorer({ interval: { kind: 'last', ms: 90 * 60e3 }, follow: true, step: '10s', limit: 200, split: true }),
    explorer({ interval: { kind: 'fixed', from: 1_700_000_000_000.25, to: 1_700_000_360_000 } }),
  ];
  for (const state of states) expect(read(write(state))).toEqual(state);
});

test('what cannot be read becomes its default', () => {
  expect(read('')).toEqual({ page: 'overview' });
  expect(read('#/nowhere?x=1')).toEqual({ page: 'overview' });
  expect(read('#/plan?colour=red&sensors=&own=perhaps')).toEqual({ page: 'plan', demand: {} });
  expect(read('#/explorer')).toEqual(explorer({}));
  expect(read('#/explorer?select=cpu{&last=soon&limit=-3&step=often')).toEqual(explorer({}));
  expect(read('#/explorer?from=1&to=x')).toEqual(explorer({}));
  expect(read('#/explorer?limit=99999999')).toEqual(explorer({ limit: 1000 }));
});

test('the old name of the page of the storage is known', () => {
  expect(read('#/log')).toEqual({ page: 'storage' });
});

test('a fixed interval is not followed, and its ends are put in order', () => {
  expect(read('#/explorer?from=2000&to=1000&follow=1')).toEqual(explorer({ interval: { kind: 'fixed', from: 1000, to: 2000 } }));
});
