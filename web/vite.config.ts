import { defineConfig } from 'vite';

// Server behind the development server.
const server = process.env['SEINER_URL'] ?? 'http://127.0.0.1:7670';

// The built page is embedded in the program and served at the root; nothing is inlined, so that
// a content security policy of 'self' suffices. The page is built into the crate that embeds it, so that a published crate
// contains it.
export default defineConfig({
  base: './',
  build: {
    outDir: '../crates/server/dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
  },
  server: { proxy: { '/api': server, '/prometheus': server, '/status': server, '/ports': server, '/write': server } },
});
