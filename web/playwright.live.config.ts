import { defineConfig } from '@playwright/test';
import { launch } from './test/browser/launch';

const url = process.env['SEINER_URL'];
if (url === undefined) throw new Error('SEINER_URL names the server to test, e.g. SEINER_URL=http://127.0.0.1:7670');

export default defineConfig({
  testDir: 'test/browser',
  testMatch: 'smoke.spec.ts',
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'list',
  use: { ...launch, baseURL: url },
});
