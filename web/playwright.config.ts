import { defineConfig } from '@playwright/test';
import { launch } from './test/browser/launch';

const PORT = 7671;

export default defineConfig({
  testDir: 'test/browser',
  testMatch: ['page.spec.ts', 'explorer.spec.ts', 'dashboards.spec.ts', 'axe.spec.ts', 'smoke.spec.ts'],
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'list',
  use: { ...launch, baseURL: `http://127.0.0.1:${PORT}` },
  webServer: { command: 'node test/mock.mjs', env: { PORT: String(PORT) }, url: `http://127.0.0.1:${PORT}/status`, reuseExistingServer: false },
});
