import { expect, test } from 'vitest';
import { seiner, curl, word } from '../../src/explorer/commands';
import { completions, place } from '../../src/explorer/complete';
import { converted, range, stepFor } from '../../src/explorer/evaluate';
import { describe as named, expression, instant, type Combination } from '../../src/explorer/promql';
import { parse } from '../../src/selector';

const none: Combination = { aggregate: null, by: [], rate: false };
const near = { step: 5000, spacing: 5000 };

test('a field is a metric, with the conditions of the selector', () => {
  expect(instant(parse('cpu'), 'usage')).toBe('cpu_usage');
  expect(instant(parse('cpu'), 'value')).toBe('cpu');
  expect(instant(parse('cpu{host="a",core=~"0|1"}'), 'usage')).toBe('cpu_usage{host="a", core=~"0|1"}');
  expect(instant(parse('cpu{host^="web."}'), 'usage')).toBe('cpu_usage{host=~"web\\\\..*"}');
  expect(instant(parse('"cpu load"{"my host"!="a"}'), 'value')).toBe('{"cpu load", "my host"!="a"}');
});

test('an aggregation is over series, with the tags to keep', () => {
  expect(expression(parse('cpu'), 'usage', { ...none, aggregate: 'sum', by: ['host', 'my tag'] }, near)).toBe('sum by (host, "my tag") (cpu_usage)');
  expect(expression(parse('cpu'), 'usage', { ...none, aggregate: 'p95' }, near)).toBe('quantile(0.95, cpu_usage)');
  expect(named('usage', { aggregate: 'p95', by: [], rate: true })).toBe('95th percentile of rate of usage');
});

test('a long step takes all samples, and rare samples are found', () => {
  const hour = { step: 3600e3, spacing: 5000 };
  expect(expression(parse('cpu'), 'usage', { ...none, aggregate: 'mean' }, hour)).toBe('avg(avg_over_time(cpu_usage[1h]))');
  expect(expression(parse('cpu'), 'usage', { ...none, aggregate: 'max' }, hour)).toBe('max(max_over_time(cpu_usage[1h]))');
  expect(expression(parse('cpu'), 'usage', { ...none, aggregate: 'mean' }, { step: 60e3, spacing: 3600e3 })).toBe('avg(last_over_time(cpu_usage[3h]))');
});

test('a rate covers several samples', () => {
  expect(expression(parse('net'), 'rx', { ...none, rate: true }, near)).toBe('rate(net_rx[20s])');
  expect(expression(parse('net'), 'rx', { aggregate: 'sum', by: [], rate: true }, { step: 600e3, spacing: 5000 })).toBe('sum(rate(net_rx[10m]))');
});

test('steps are round, and ends are multiples of the step', () => {
  expect(stepFor({ from: 0, to: 3600e3 }, 'auto', 800)).toBe(5000);
  expect(stepFor({ from: 0, to: 3600e3 }, '1m', 800)).toBe(60e3);
  expect(stepFor({ from: 0, to: 365 * 86400e3 }, '1s', 800)).toBe(43_200e3);
  expect(range('up', { from: 1_700_000_001_234, to: 1_700_000_061_234 }, 5000)).toEqual({ query: 'up', start: '1700000005', end: '1700000060', step: '5' });
});

test('series of Prometheus become series of the store', () => {
  const series = converted({ metric: { __name__: 'up', host: 'a' }, values: [[1.5, '2'], [2, '+Inf'], [3, 'NaN']] }, 'sum(up)');
  expect(series).toMatchObject({ tags: { host: 'a' }, field: 'up', times: [1500, 2000, 3000], mean: [2, 'Infinity', 'NaN'] });
  expect(converted({ metric: {}, values: [] }, 'sum(up)').field).toBe('sum(up)');
});

const store = [
  { measurement: 'cpu', sources: 1, tags: [{ name: 'host', values: 2 }, { name: 'my tag', values: 1 }], fields: [{ name: 'usage', type: 'f64' as const }, { name: 'state', type: 'string' as const }], first: null, last: null, bytes: null },
  { measurement: 'mem', sources: 1, tags: [{ name: 'node', values: 1 }], fields: [{ name: 'value', type: 'f64' as const }], first: null, last: null, bytes: null },
];
const at = (text: string) => place(text, text.length);
const labels = (text: string): string[] => completions(at(text), store).map((one) => one.label);

test('the place of the cursor decides what is completed', () => {
  expect(at('sum(cp')).toMatchObject({ kind: 'name', typed: 'cp', from: 4 });
  expect(at('cpu_usage{ho')).toMatchObject({ kind: 'tag', typed: 'ho', metric: 'cpu_usage' });
  expect(at('cpu_usage{host=~"a|')).toMatchObject({ kind: 'value', typed: 'a|', tag: 'host', metric: 'cpu_usage' });
  expect(at('sum by (')).toMatchObject({ kind: 'tag' });
  expect(at('rate(cpu_usage{host="a}"}[')).toMatchObject({ kind: 'duration' });
  expect(at('cpu_usage{host="a"} + ')).toMatchObject({ kind: 'name', typed: '' });
});

test('names of the store come before words of the language', () => {
  expect(labels('cpu')).toEqual(['cpu_usage']);
  expect(labels('mem')[0]).toBe('mem');
  expect(labels('rate')).toContain('rate');
  expect(labels('cpu_usage{')).toEqual(['host', 'my tag']);
  expect(labels('sum by (n')).toEqual(['node']);
  expect(completions(at('cpu_usage{host="'), store, ['a"b']).map((one) => one.insert)).toEqual(['a\\"b']);
});

test('commands are one word per argument', () => {
  expect(word("it's")).toBe("'it'\\''s'");
  const query = { select: 'cpu{host="a"}', fields: 'usage', from: '-1h', to: undefined, points: 800 };
  expect(seiner('http://127.0.0.1:7670', query)).toBe(`seiner query 'cpu{host="a"}' --fields usage --from -1h --points 800`);
  expect(curl('http://h:1', '/api/v1/query', query, true)).toBe(`curl -G http://h:1/api/v1/query -H "Authorization: Bearer $SEINER_TOKEN" --data-urlencode 'select=cpu{host="a"}' --data-urlencode fields=usage --data-urlencode from=-1h --data-urlencode points=800`);
});
