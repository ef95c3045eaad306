import { expect, test } from 'vitest';
import { clean, command } from '../../src/plan/demand';

test('what is empty or no question is left out', () => {
  expect(clean([['sensors', ' 1e6 '], ['every', ''], ['colour', 'red'], ['own', 'true']])).toEqual({ sensors: '1e6', own: 'true' });
  expect(clean([['own', 'maybe']])).toEqual({});
});

test('the command line plans the same, and a shell reads it', () => {
  expect(command({ sensors: '1e6', jittered: 'true', ram: '8 GiB' }, 'http://x')).toBe("seiner plan --sensors 1e6 --jittered --ram '8 GiB'");
  expect(command({ sensors: '10M', per_host: '100' }, 'http://x')).toBe('seiner plan --sensors 10M --per-host 100');
  expect(command({ own: 'true', keep: '30d' }, 'http://x')).toBe('seiner plan --from http://x --keep 30d');
  expect(command({ class: `a:90%:30d:cpu{h="b"}; b:10%:1y` }, '')).toBe(`seiner plan --class 'a:90%:30d:cpu{h="b"}' --class b:10%:1y`);
  expect(command({ keep: "it's" }, '')).toBe("seiner plan --keep 'it'\\''s'");
});
