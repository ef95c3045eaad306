import { expect, test } from 'vitest';
import { format, literals, parse, type Selector } from '../../src/selector';

const round = (selector: Selector): Selector => parse(format(selector));

test('writes the notation of the server', () => {
  expect(format({ measurement: 'cpu', filters: [] })).toBe('cpu');
  expect(format({ measurement: 'cpu', filters: [{ tag: 'host', operator: '=', values: ['web-1'] }] })).toBe('cpu{host="web-1"}');
  expect(format({ measurement: '', filters: [{ tag: 'rack', operator: '!=', values: [''] }] })).toBe('{rack!=""}');
  expect(format({ measurement: 'a b', filters: [{ tag: 'x=y', operator: '^=', values: ['p'] }] })).toBe('"a b"{"x=y"^="p"}');
});

test('several values become an alternation of literals', () => {
  const selector: Selector = { measurement: 'cpu', filters: [{ tag: 'host', operator: '=', values: ['a.b', 'c|d', 'e'] }] };
  expect(format(selector)).toBe('cpu{host=~"a\\\\.b|c\\\\|d|e"}');
  expect(round(selector)).toEqual(selector);
});

test('whatever is written is read back', () => {
  const texts = ['', 'plain', 'a "quoted" one', 'back\\slash', 'new\nline\ttab', 'Ünïcode ✓', '{}=!~^,', '\\n is two characters', '.*+?()[]'];
  for (const operator of ['=', '!=', '=~', '!~', '^='] as const) {
    for (const text of texts) {
      const selector: Selector = { measurement: 'm x', filters: [{ tag: 't', operator, values: [text] }, { tag: 'u', operator: '=', values: ['v'] }] };
      expect(round(selector)).toEqual(selector);
    }
  }
  const many: Selector = { measurement: 'm', filters: [{ tag: 't', operator: '!=', values: texts }] };
  expect(round(many)).toEqual(many);
});

test('reads what people write', () => {
  expect(parse(' cpu{ host=web-1, core=0, } ')).toEqual({
    measurement: 'cpu',
    filters: [{ tag: 'host', operator: '=', values: ['web-1'] }, { tag: 'core', operator: '=', values: ['0'] }],
  });
  expect(parse('{host=~"web-\\d"}').filters).toEqual([{ tag: 'host', operator: '=~', values: ['web-\\d'] }]);
});

test('an expression that is not an alternation of literals stays one', () => {
  expect(literals('a|b')).toEqual(['a', 'b']);
  expect(literals('a\\.b')).toEqual(['a.b']);
  for (const pattern of ['a.*', '[ab]', 'a|b?', '\\d', '(a)', 'trailing\\']) expect(literals(pattern)).toBeNull();
});

test('errors name the place', () => {
  expect(() => parse('cpu{host}')).toThrow('character 9');
  expect(() => parse('cpu{host="a}')).toThrow('character 10');
  expect(() => parse('cpu{host=a')).toThrow('character 11');
  expect(() => parse('cpu{=a}')).toThrow('character 5');
  expect(() => parse('cpu} x')).toThrow('character 4');
});

test('what cannot be printed is read as the server writes it', () => {
  const [filter] = parse('m{a="\\u{1b}[31m\\u{202e}",b="\\u{2e}\\\\u{1b}"}').filters;
  expect(filter!.values).toEqual(['\u001b[31m\u202e']);
  expect(parse('{b="\\u{2e}"}').filters[0]!.values).toEqual(['\\u{2e}']);
  expect(parse('{b="\\\\u{1b}"}').filters[0]!.values).toEqual(['\\u{1b}']);
});
