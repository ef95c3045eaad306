import { expect, test } from 'vitest';
import { exact, number, parse } from '../../src/api';
import { traces } from '../../src/explorer/query';
import * as format from '../../src/format';

test('integers beyond 2^53 in lists are exact', () => {
  const text = '{"min":[9007199254740993,-9223372036854775808],"max":[18446744073709551615,9007199254740991,1],"step_ns":31536000000000001}';
  expect(parse(text)).toEqual({ min: [9007199254740993n, -9223372036854775808n], max: [18446744073709551615n, 9007199254740991, 1], step_ns: 31536000000000001 });
  expect(exact(9007199254740993n)).toBe(9007199254740993n);
  expect(number(9007199254740993n)).toBe(9007199254740992);
});

test('floats, texts and what only looks like an integer are as JSON has them', () => {
  for (const text of [
    '[1.2345678901234567,12345678901234567.5,1e300,12345678901234567e2,9007199254740993]',
    '["9007199254740993","a \\"9007199254740993,","\\\\",9007199254740993]',
    '{"9007199254740993":[9007199254740993]}',
  ]) {
    const rounded = JSON.stringify(JSON.parse(text));
    expect(JSON.stringify(parse(text), (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value))).toBe(rounded);
    expect(JSON.stringify(parse(text), (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value))).toContain('"9007199254740993"');
  }
  // A text with the mark itself is not taken for an integer.
  expect(parse('["\\u0000123",9007199254740993]')).toEqual(['\u0000123', 9007199254740992]);
});

test('the figures of a series show all digits', () => {
  const series = { measurement: 'meter', tags: {}, field: 'total', times: [0, 1], mean: [9007199254740994, 9007199254740996], min: [9007199254740993n, 9007199254740995n], max: [9007199254740995n, 9007199254740997n], count: [2, 2], last: [9007199254740995n, 9007199254740997n] };
  const [trace] = traces([series], [{ name: 'total', type: 'u64' }]).traces;
  const { min, max, last } = trace!.summary;
  expect([min, max, last].map(format.sample)).toEqual(['9,007,199,254,740,993', '9,007,199,254,740,997', '9,007,199,254,740,997']);
  expect(format.sample(9007199254740991)).toBe('9,007,199,254,740,991');
  expect(trace!.values).toEqual([9007199254740994, 9007199254740996]);
});
