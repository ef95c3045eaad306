import { beforeEach, expect, test, vi } from 'vitest';

const kept = new Map<string, string>();
vi.stubGlobal('sessionStorage', {
  getItem: (key: string) => kept.get(key) ?? null,
  setItem: (key: string, value: string) => void kept.set(key, value),
  removeItem: (key: string) => void kept.delete(key),
});

const access = await import('../../src/access');
const api = await import('../../src/api');

beforeEach(() => kept.clear());

test('requests carry the token that was kept', () => {
  expect(access.headers()).toEqual({});
  access.keep(' seiner_x\n');
  expect(access.headers()).toEqual({ authorization: 'Bearer seiner_x' });
});

test('a page without a permitted token asks once, and forgets the rejected token', async () => {
  const sent: unknown[] = [];
  vi.stubGlobal('fetch', (_: string, { headers }: { headers: Record<string, string> }) => {
    sent.push(headers.authorization);
    return Promise.resolve(new Response('{"error":"the token is wrong or revoked"}', { status: 401 }));
  });
  const asked: boolean[] = [];
  access.onDenied((isRejected) => asked.push(isRejected));
  access.keep('seiner_x');
  await expect(api.status()).rejects.toThrow('wrong or revoked');
  await expect(api.measurements()).rejects.toThrow('wrong or revoked');
  expect(sent).toEqual(['Bearer seiner_x', undefined]);
  expect(asked).toEqual([true]);
});
