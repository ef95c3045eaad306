// The browser that is installed is used; none is downloaded. CHROMIUM names another one.

export const launch = {
  viewport: { width: 1280, height: 860 },
  trace: 'off' as const,
  timezoneId: 'UTC',
  launchOptions: {
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--headless',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  },
};
