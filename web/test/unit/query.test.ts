import { expect, test } from 'vitest';
import type { Field, Stepped } from '../../src/api';
import { exports, firstFields, MOST_BANDS, numeric, traces, type Question } from '../../src/explorer/query';
import { labels } from '../../src/labels';

const usage: Field = { name: 'usage', type: 'f64' };
const state: Field = { name: 'state', type: 'string' };
const question = (change: Partial<Question> = {}): Question => ({ select: 'cpu{host="a"}', fields: [usage, state], window: { from: 1000, to: 61_000 }, step: 'auto', width: 800.7, limit: 50, ...change });
const series = (change: Partial<Stepped> = {}): Stepped => ({ measurement: 'cpu', tags: { host: 'a' }, field: 'usage', times: [0, 10], mean: [1, 3], min: [0, 2], max: [2, 9], count: [1, 3], last: [2, 4], ...change });

test('a query asks for as many points as there are pixels, of numbers only', () => {
  expect(numeric(question())).toEqual({ select: 'cpu{host="a"}', fields: 'usage', from: '1000000000ns', to: '61000000000ns', limit: 50, points: 800, aggregate: 'mean,min,max,count,last' });
  expect(numeric(question({ step: '10s' }))).toMatchObject({ step: '10s' });
});

test('a step that gives too many points gives way', () => {
  const year = { from: 0, to: 365 * 86_400e3 };
  expect(numeric(question({ step: '1s', window: year }))).toMatchObject({ points: 800 });
  expect(numeric(question({ step: '1h', window: year }))).toMatchObject({ step: '1h' });
});

test('the links take away the same query', () => {
  const links = exports(question());
  expect(links.map((link) => link.name)).toEqual(['CSV', 'JSON', 'Arrow', 'all samples']);
  const csv = new URL(links[0]!.href, 'http://x').searchParams;
  expect(Object.fromEntries(csv)).toMatchObject({ select: 'cpu{host="a"}', points: '800', format: 'csv' });
  const all = new URL(links[3]!.href, 'http://x').searchParams;
  expect(all.has('points')).toBe(false);
  expect(all.has('aggregate')).toBe(false);
});

test('a trace weighs its summary by counts', () => {
  const [trace] = traces([series()], [usage]).traces;
  expect(trace!.summary).toEqual({ min: 0, max: 9, mean: 2.5, samples: 4, last: 4 });
  expect(trace!.low).toEqual([0, 2]);
  expect(trace!.key.type).toBe('f64');
  expect(traces([series()], [{ name: 'usage', type: 'bool' }]).traces[0]!.key.type).toBe('bool');
});

test('what cannot be drawn is a gap, and still has its name', () => {
  const [trace] = traces([series({ mean: ['NaN', 'Infinity'] })], [usage]).traces;
  expect(trace!.values).toEqual([null, null]);
  expect([...trace!.odd.values()]).toEqual([NaN, Infinity]);
});

test('many series have no bands', () => {
  const many = Array.from({ length: MOST_BANDS + 1 }, (_, i) => series({ tags: { host: `h${i}` } }));
  expect(traces(many, [usage]).traces.every((trace) => trace.low === undefined)).toBe(true);
});

test('labels say what tells series apart, and once what they share', () => {
  const key = (tags: Record<string, string>, field = 'usage') => ({ measurement: 'cpu', tags, field, type: 'f64' as const });
  expect(labels([key({ host: 'anchor', core: '0' }), key({ host: 'buoy', core: '0' })])).toEqual({ shared: { core: '0' }, field: 'usage', each: ['anchor', 'buoy'] });
  expect(labels([key({ core: '0' }), key({ core: '1' })]).each).toEqual(['core=0', 'core=1']);
  expect(labels([key({ core: '0' }), key({ core: 'all' })]).each).toEqual(['core=0', 'core=all']);
  expect(labels([key({ host: 'a' }), key({ host: 'a' }, 'idle')]).each).toEqual(['usage', 'idle']);
  expect(labels([key({ host: 'a' })]).each).toEqual(['usage']);
});

test('well-known fields come first', () => {
  expect(firstFields([{ name: 'idle', type: 'f64' }, usage])).toEqual(['usage']);
  expect(firstFields([state, { name: 'x', type: 'i64' }])).toEqual(['x']);
  expect(firstFields([state])).toEqual(['state']);
  expect(firstFields([])).toEqual([]);
});
