// A stand-in for the server: its API over sensors whose values are functions of time, and the built
// page. POST /mock?scenario= sets what it plays: calm, empty, young (its own sensors only), sick, refusing, locked or gone.
// PORT is the port (default 7671).

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const DIST = fileURLToPath(new URL('../../crates/server/dist/', import.meta.url));
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'";
const STARTED = Date.now();

/** A value between 0 and 1 that looks random and depends on its arguments only. */
function noise(...parts) {
  let hash = 2166136261;
  for (const byte of parts.join('/')) hash = Math.imul(hash ^ byte.charCodeAt(0), 16777619);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 2246822519);
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}

const wave = (ms, period, phase = 0) => Math.sin((ms / 1000 / period + phase) * 2 * Math.PI);
const hosts = ['anchor', 'buoy'];
const cores = ['0', '1', '2', '3', 'all'];
const GIB = 2 ** 30;

/** Measurements: sources (tags), distance of samples in ms, fields (type, value at a time). */
const MEASUREMENTS = {
  host_cpu: {
    every: 2000,
    sources: hosts.flatMap((host) => cores.map((core) => ({ core, host }))),
    fields: {
      idle: ['f64', (ms, t) => 100 - load(ms, t)],
      usage: ['f64', load],
    },
  },
  host_mem: { every: 2000, sources: hosts.map((host) => ({ host })), fields: { available: ['u64', (ms, t) => 16 * GIB - used(ms, t)], used: ['u64', used], used_percent: ['f64', (ms, t) => (used(ms, t) / 16 / GIB) * 100] } },
  host_net: { every: 2000, sources: [{ host: 'anchor', interface: 'eth0' }], fields: { rx_bytes: ['u64', (ms) => Math.floor(ms / 1000) * 910_000 + Math.floor(9e6 * (1 + wave(ms, 97)))], tx_bytes: ['u64', (ms) => Math.floor(ms / 1000) * 240_000 + Math.floor(2e6 * (1 + wave(ms, 61)))] } },
  host_disk: { every: 2000, sources: [{ device: 'nvme0', host: 'anchor' }], fields: { read_bytes_per_s: ['f64', (ms) => 4e5 * noise('r', ms)], write_bytes_per_s: ['f64', (ms) => 21e6 + 4e6 * wave(ms, 45) + 2e6 * noise('w', ms)] } },
  host_load: { every: 5000, sources: [{ host: 'anchor' }], fields: { load1: ['f64', (ms) => 1.3 + 0.5 * wave(ms, 290)], load15: ['f64', () => 1.21], load5: ['f64', (ms) => 1.25 + 0.2 * wave(ms, 700)] } },
  seiner: { every: 2000, sources: [{ host: 'anchor' }], fields: { journal_written_per_s: ['f64', (ms) => 3.4e6 + 4e5 * wave(ms, 70)], rows_per_s: ['f64', rowsPerSecond], samples_per_s: ['f64', (ms) => 6 * rowsPerSecond(ms)], segment_written_per_s: ['f64', (ms) => (noise('seg', Math.floor(ms / 20_000)) > 0.5 ? 2.4e6 : 1.9e6)] } },
  host_temp: { every: 5000, sources: ['package', 'nvme'].map((sensor) => ({ host: 'anchor', sensor })), fields: { celsius: ['f64', (ms, t) => (t.sensor === 'nvme' ? 41 : 56) + 4 * wave(ms, 410) + noise(t.sensor, ms)] } },
  pump: {
    every: 30_000,
    sources: ['north', 'south'].map((station) => ({ station })),
    fields: {
      pressure: ['f64', (ms, t) => (ms < Date.now() - 36e5 && noise('odd', t.station, ms) > 0.997 ? NaN : 2.4 + 0.3 * wave(ms, 900) + 0.1 * noise(t.station, ms))],
      running: ['bool', (ms, t) => noise('run', t.station, Math.floor(ms / 420_000)) > 0.3],
      state: ['string', (ms, t) => ['idle', 'priming', 'running', 'flushing'][Math.floor(4 * noise('state', t.station, Math.floor(ms / 600_000)))]],
    },
  },
  // Texts of single moments.
  deploy: { every: 600_000, sources: [{ service: 'web' }, { service: 'api' }], fields: { note: ['string', (ms, t) => `${t.service} ${Math.floor(ms / 600_000) % 1000} deployed`] } },
  // Samples of one day in the past only.
  harvest: { every: 60_000, ends: [Date.UTC(2026, 7, 1), Date.UTC(2026, 7, 2)], sources: [{ farm: 'Elm & Co' }], fields: { weight: ['f64', (ms) => 20 + 5 * wave(ms, 7000)] } },
  meter: { every: 60_000, sources: Array.from({ length: 120 }, (_, i) => ({ serial: `M-${String(i).padStart(4, '0')}` })), fields: { power: ['f64', (ms, t) => 400 + 150 * wave(ms, 5400, noise(t.serial)) + 600 * noise('base', t.serial)] } },
};

function load(ms, tags) {
  const base = tags.host === 'anchor' ? 34 : 18;
  const own = tags.core === 'all' ? 0 : 9 * (noise(tags.core, tags.host) - 0.5) + 14 * (noise(tags.core, ms) - 0.5);
  return Math.max(0, Math.min(100, base + 9 * wave(ms, 333) + 6 * wave(ms, 71, 0.3) + 5 * noise('cpu', tags.host, ms) + own));
}

function rowsPerSecond(ms) {
  return 41_800 + 3000 * wave(ms, 40) + 1500 * noise('rows', Math.floor(ms / 1000));
}

function used(ms, tags) {
  return Math.floor((tags.host === 'anchor' ? 6.1 : 3.2) * GIB + 0.4 * GIB * wave(ms, 1900) + 4e7 * noise('mem', ms));
}

let scenario = 'calm';

function fail(message, status = 400, code = 'invalid') {
  throw Object.assign(new Error(message), { status, code });
}

/** Selectors: enough of the notation for what the page writes. */
function parseSelector(text) {
  const match = /^([^{]*)(?:\{(.*)\})?$/s.exec(text.trim());
  if (match === null) fail(`selector, character ${text.length + 1}: expected }`);
  const conditions = [];
  const pattern = /\s*([\w.-]+)\s*(=~|!~|!=|\^=|=)\s*"((?:[^"\\]|\\.)*)"\s*,?/gy;
  const inner = match[2] ?? '';
  while (pattern.lastIndex < inner.length) {
    const at = pattern.lastIndex;
    const found = pattern.exec(inner);
    if (found === null) fail(`selector, character ${match[1].length + 2 + at}: expected a tag`);
    conditions.push({ tag: found[1], operator: found[2], value: found[3].replace(/\\(["\\])/g, '$1') });
  }
  return { measurement: match[1].replace(/^"|"$/g, ''), conditions };
}

function holds(tags, { tag, operator, value }) {
  const own = tags[tag] ?? '';
  const matches = () => new RegExp(`^(?:${value.replace('(?i)', '')})$`, value.startsWith('(?i)') ? 'is' : 's').test(own);
  return { '=': () => own === value, '!=': () => own !== value, '=~': matches, '!~': () => !matches(), '^=': () => own.startsWith(value) }[operator]();
}

function sources(text) {
  const { measurement, conditions } = parseSelector(text);
  if (scenario === 'empty') return [];
  const hidden = scenario === 'young' ? ['pump', 'meter', 'harvest', 'deploy'] : [];
  return Object.entries(MEASUREMENTS)
    .filter(([name]) => !hidden.includes(name))
    .filter(([name]) => measurement === '' || name === measurement)
    .flatMap(([name, { sources: all }]) => all.filter((tags) => conditions.every((one) => holds(tags, one))).map((tags) => ({ measurement: name, tags })));
}

function parseTime(text, now, otherwise) {
  if (text === null) return otherwise;
  if (text === 'now') return now;
  const back = /^-(\d+)(ms|s|m|h|d)$/.exec(text);
  if (back !== null) return now - Number(back[1]) * { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 }[back[2]];
  if (/^-?\d+$/.test(text)) return Number(text) / 1e6;
  return fail(`time ${JSON.stringify(text)}: give integer nanoseconds, RFC 3339, now, or an offset such as -1h`);
}

const LADDER = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1000)];

function stepOf(query, length) {
  if (query.has('step')) {
    const match = /^(\d+)(ms|s|m|h|d)$/.exec(query.get('step')) ?? fail(`step ${JSON.stringify(query.get('step'))}: give a duration such as 10s`);
    return Number(match[1]) * { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 }[match[2]];
  }
  if (!query.has('points')) return null;
  return LADDER.find((step) => length / step <= Number(query.get('points'))) ?? 2_592_000_000;
}

/** First and last time of a measurement. */
const endsOf = (measurement) => MEASUREMENTS[measurement].ends ?? [Date.UTC(2026, 8, 1), Date.now()];

const wire = (value) => (typeof value === 'number' && !Number.isFinite(value) ? String(value) : value);

function query(search) {
  if (scenario === 'refusing') fail('the store is closed', 503, 'unavailable');
  const now = Date.now();
  const from = parseTime(search.get('from'), now, now - 36e5);
  const to = parseTime(search.get('to'), now, now);
  if (from > to) fail('from is later than to');
  const wanted = search.get('fields')?.split(',');
  const step = stepOf(search, to - from);
  const aggregates = (search.get('aggregate') ?? 'mean').split(',');
  const limit = Number(search.get('limit') ?? 1e9);
  const series = [];
  let truncated = false;
  for (const { measurement, tags } of sources(search.get('select') ?? '')) {
    const { every, fields } = MEASUREMENTS[measurement];
    for (const field of (wanted ?? Object.keys(fields)).filter((name) => name in fields)) {
      const [type, at] = fields[field];
      if (series.length >= limit) {
        truncated = true;
        continue;
      }
      const key = { measurement, tags, field };
      const [first, last] = MEASUREMENTS[measurement].ends ?? [-Infinity, now];
      const [start, end] = [Math.max(from, first), Math.min(to, last)];
      if (start > end) continue;
      series.push(step === null ? rawSeries({ ...key, type }, start, end, every, at) : steppedSeries(key, start, end, Math.max(every, (to - from) / 20_000), at, step, aggregates));
    }
  }
  return { from: String(Math.round(from * 1e6)), to: String(Math.round(to * 1e6)), ...(step === null ? {} : { step_ns: step * 1e6 }), series, truncated, ...rangeHint(search, series) };
}

/** States where samples are, if the interval has none. */
function rangeHint(search, series) {
  const [source] = sources(search.get('select') ?? '');
  if (series.length > 0 || source === undefined) return {};
  const [from, to] = endsOf(source.measurement).map((ms) => String(ms * 1e6));
  return { hints: ['there is no sample in the interval'], range: { from, to } };
}

function latest(search) {
  const limit = Number(search.get('limit') ?? 1e9);
  const wanted = search.get('fields')?.split(',');
  const series = sources(search.get('select') ?? '').flatMap(({ measurement, tags }) => {
    const { every, fields } = MEASUREMENTS[measurement];
    const ms = Math.floor(endsOf(measurement)[1] / every) * every;
    return (wanted ?? Object.keys(fields)).map((field) => ({ measurement, tags, field, type: fields[field][0], times: [ms], values: [wire(fields[field][1](ms, tags))] }));
  });
  return { from: '0', to: '0', series: series.slice(0, limit), truncated: series.length > limit };
}

function summary(search) {
  const groups = new Map();
  for (const { measurement, tags } of sources(search.get('select') ?? '')) groups.set(measurement, [...(groups.get(measurement) ?? []), tags]);
  return [...groups].sort().map(([measurement, all]) => {
    const names = [...new Set(all.flatMap(Object.keys))].sort();
    const [first, last] = endsOf(measurement).map((ms) => new Date(ms).toISOString());
    return {
      measurement,
      sources: all.length,
      tags: names.map((name) => ({ name, values: new Set(all.map((tags) => tags[name])).size })),
      fields: fieldsOf(measurement),
      first,
      last,
      bytes: 48_213,
    };
  });
}

const fieldsOf = (measurement) => Object.entries(MEASUREMENTS[measurement].fields).map(([name, [type]]) => ({ name, type }));

function* samples({ tags }, from, to, every, at) {
  for (let ms = Math.ceil(from / every) * every; ms <= to; ms += every) yield [ms, at(ms, tags)];
}

function rawSeries(key, from, to, every, at) {
  const all = [...samples(key, from, to, every, at)];
  return { ...key, times: all.map(([ms]) => ms), values: all.map(([, value]) => wire(value)) };
}

function steppedSeries(key, from, to, every, at, step, aggregates) {
  const buckets = new Map();
  for (const [ms, value] of samples(key, from, to, every, at)) {
    const start = Math.floor(ms / step) * step;
    const bucket = buckets.get(start) ?? { count: 0, sum: 0, min: Infinity, max: -Infinity };
    const number = typeof value === 'string' ? NaN : Number(value);
    bucket.count += 1;
    bucket.last = number;
    bucket.sum += number;
    bucket.min = Math.min(bucket.min, number);
    bucket.max = Math.max(bucket.max, number);
    buckets.set(start, bucket);
  }
  const columns = Object.fromEntries(aggregates.map((name) => [name, [...buckets.values()].map((bucket) => wire(name === 'mean' ? bucket.sum / bucket.count : bucket[name]))]));
  return { ...key, times: [...buckets.keys()], ...columns };
}

function status() {
  const now = Date.now();
  const uptime = (now - STARTED) / 1000 + 86_400;
  const rows = scenario === 'empty' ? 0 : rowsPerSecond(now);
  const accepted = scenario === 'empty' ? 0 : Math.floor(uptime * 251_000);
  const sick = scenario === 'sick';
  return {
    version: '0.1.0',
    uptime_s: uptime,
    durability: { mode: 'interval', interval_ms: 100 },
    data_directory: './seiner-data',
    engine: {
      sources: scenario === 'empty' ? 0 : 104_312, series: scenario === 'empty' ? 0 : 625_872, rows_accepted: Math.floor(accepted / 6), samples_accepted: accepted, rows_rejected: 0,
      unsynced_samples: Math.floor(rows * 0.36), unsynced_bytes: Math.floor(rows * 2.9), unsynced_age_ns: 61_000_000 + Math.floor(3e7 * noise('age', now)),
      buffered_rows: 1_204_511, buffer_bytes: 138 * 2 ** 20, dictionary_bytes: 31 * 2 ** 20, memory_used_bytes: (sick ? 250 : 171) * 2 ** 20, memory_budget_bytes: 256 * 2 ** 20,
      journal_bytes: 84 * 2 ** 20, journal_files: 3, journal_written: 9 * GIB, journal_syncs: 860_000,
      segments: 612, segment_bytes: 612 * 64 * 2 ** 20, open_segments: 4, open_segment_bytes: 91 * 2 ** 20, segment_written: 40 * GIB, blocks_sealed: 9_871_204, sealed_block_bytes: 38 * GIB, samples_sealed: 21_500_000_000,
      damaged_segments: sick ? 2 : 0, poisoned: sick ? 'a sync of journal-00012 failed: Input/output error' : null,
    },
    ingest: { rows: scenario === 'young' ? 0 : Math.floor(accepted / 6), rows_per_s: rows, samples_per_s: rows * 6, rejected_lines: sick ? 218 : 0, requests_in_flight: 3 },
    process: { rss_bytes: 214 * 2 ** 20, cpu_s: 5210.4 },
    disk: { total_bytes: 512 * GIB, free_bytes: (sick ? 18 : 301) * GIB, used_by_store_bytes: 39 * GIB },
    troubles: sick ? TROUBLES : [],
    losses: sick ? [LOSS] : [],
  };
}

/** Troubles that a server in bad health reports. */
const TROUBLES = [
  { health: 'fail', text: 'writes are rejected, because a write to the disk failed: a sync of journal-00012 failed: Input/output error; check that the disk works, is writable and has free space, then start the server again' },
  { health: 'warn', text: 'data was lost: segment-00000031.log: the file is missing; 41,527 rows; `/status` lists the losses, and `seiner acknowledge` clears the list' },
  { health: 'pass', text: '2 segments or blocks are damaged and not served; the log names them, and `seiner check` finds all' },
  { health: 'pass', text: 'no source is in the retention class "rings" (frame)' },
];
const LOSS = { file: 'segment-00000031.log', what: 'the file is missing', rows: 41_527, at_most: false, from: '1795000000000000000', to: '1795003600000000000', found_at: '1795408380000000000' };

const DAY_NS = 86_400e9;

/** Five lanes whose segments expire as a whole, one after the other, as when planing. */
function log() {
  const now = Date.now() * 1e6;
  const sick = scenario === 'sick';
  const size = 8 * 2 ** 20;
  const lives = [null, 0, DAY_NS, 7 * DAY_NS, 30 * DAY_NS];
  const counts = scenario === 'empty' ? [0, 0, 0, 0, 0] : [14, 21, 48, 120, 260];
  const segments = counts.flatMap((count, lane) =>
    Array.from({ length: count }, (_, i) => {
      const open = i === count - 1;
      const fill = open ? size * 0.4 : size * 0.98;
      const dead = open || lane === 0 ? 0 : i < 2 || sick ? noise('dead', lane, i) ** 2 : 0;
      return { number: 10 * i + lane, lane, bytes: size, live: Math.round(fill * (1 - dead)), dead: Math.round(fill * dead), open, born: now - (count - i) * 36e11, dies: lane === 0 ? null : now + i * 36e11 };
    }),
  ).sort((a, b) => a.number - b.number);
  const period = (seconds, merged) => ({ seconds, stored: seconds * 2e5, merged, journal: seconds * 26e4, segments: seconds * 21e4 + merged, process: seconds * 5e5, device: seconds * 9e5, per_byte: 1 + merged / seconds / 2e5 });
  const budget = 4 * GIB;
  const live = segments.reduce((all, segment) => all + segment.live, 0);
  const used = segments.length * size + 160 * 2 ** 20 + (sick ? 240 * 2 ** 20 : 0);
  const rules = { age_ns: null, rows: null, bytes: null, priority: 100, when_full: 'refuse', hidden_before: null };
  return {
    now, planing: !sick, segment_bytes: size, planing_segment_bytes: Math.max(0, Math.round(budget * 0.95 - live)), policy: 'patient', average_dead_share: sick ? 0.41 : null,
    space: { budget, used, files: used - 152 * 2 ** 20, allotted: 152 * 2 ** 20, live, reserved: 2 * size, u: used / budget, um: 0.95, v: live / budget, hunger: (used / budget - 0.95) / 0.05 },
    written: { hour: period(3600, sick ? 5e8 : 0), day: period(86_400, 9e7), start: period(200_000, 9e7) },
    device: { name: 'nvme0n1', written: 8.1e12, per_day: 9e5 * 86_400, tbw: 6e14, life_days: 6e14 / (9e5 * 86_400) },
    lanes: lives.map((from, id) => ({ id, from_ns: from, to_ns: from === null ? null : lives[id + 1] ?? null, flow_share: counts[id] / 463, segment_bytes: size })),
    segments,
    classes: [
      { ...rules, name: 'raw', select: 'accel{axis=~"[xyz]"}', age_ns: 30 * DAY_NS, sources: 96_000, live: live * 0.6 },
      { ...rules, name: 'debug', select: '{level="debug"}', bytes: GIB, priority: 1, when_full: 'shed', sources: 8000, live: live * 0.3 },
      { ...rules, name: 'rings', select: 'frame', rows: 100_000, sources: sick ? 0 : 12, live: sick ? 0 : live * 0.05 },
      { ...rules, name: 'default', select: '', sources: 300, live: live * 0.05 },
    ],
    troubles: sick ? TROUBLES : [],
  };
}

function why() {
  if (scenario === 'empty') return [];
  const now = Date.now() * 1e6;
  const decision = { policy: 'patient', um: 0.95, v: 0.88, hunger: -0.1, least_dead_share: null, average_dead_share: null, candidates: 463, drop: [], merge: [] };
  return [
    { ...decision, at: now - 3 * 36e11, u: 0.951, drop: [11, 12] },
    { ...decision, at: now - 36e11, u: 0.957, hunger: 0.14, merge: [{ number: 31, dead_share: 0.71, live: 24e5, gain: 59e5, score: 2.4 }] },
  ];
}

function values(search) {
  const tag = search.get('tag') ?? fail('values needs a tag');
  const all = new Set(sources(search.get('select') ?? '').map(({ tags }) => tags[tag]).filter((value) => value !== undefined));
  return [...all].sort().slice(0, Number(search.get('limit') ?? 1000));
}

/** Fits up to a million sensors. */
function plan(search) {
  const text = search.get('sensors') ?? (search.get('own') === 'true' ? '120' : '');
  if (text === '') fail('sensors: say how many there are, such as 1e6');
  const sensors = Number(text);
  if (!Number.isFinite(sensors)) fail('sensors: write a number such as 100000, 700k or 1e6');
  const fits = sensors <= 1e6;
  return {
    fits,
    sensors,
    fields: Number(search.get('fields') ?? 1),
    every_s: 10,
    obstacles: fits ? [] : ['900 GiB are kept, the budget has room for 300 GiB (Um = 0.95 of 316 GiB)'],
    figures: [
      { name: 'samples a second', value: String(sensors / 10), origin: 'given', is_detail: false },
      { name: 'planing, R ≤ (C/n)·(Um − V)', value: fits ? 'yes, R = 64 MiB and could be 20 times as large' : 'no', origin: 'paper', is_detail: true },
    ],
    ways: fits ? [] : [{ what: '4 machines like this, each with a part of the sensors', gives_up: 'money', v: 0.7, written_per_s: 3.1e6, memory: 512 * 2 ** 20 }],
    warnings: ['the disks were not measured'],
    toml: fits ? 'memory = "512 MiB"\ndisk = "293 GiB"\n' : null,
  };
}

const CALLS = {
  '/status': status,
  '/api/v1/log': log,
  '/api/v1/log/why': why,
  '/api/v1/plan': plan,
  '/api/v1/measurements': () => [...new Set(sources('').map((source) => source.measurement))].sort(),
  '/api/v1/tags': (search) => [...new Set(sources(search.get('select') ?? '').flatMap(({ tags }) => Object.keys(tags)))].sort(),
  '/api/v1/values': values,
  '/api/v1/fields': (search) => {
    const found = new Map();
    for (const { measurement } of sources(search.get('select') ?? '')) for (const [name, [type]] of Object.entries(MEASUREMENTS[measurement].fields)) found.set(name, type);
    return [...found].map(([name, type]) => ({ name, type }));
  },
  '/api/v1/sources': (search) => {
    const all = sources(search.get('select') ?? '');
    return { total: all.length, sources: all.slice(0, Number(search.get('limit') ?? 1000)) };
  },
  '/api/v1/query': query,
  '/prometheus/api/v1/query_range': queryRange,
  '/prometheus/api/v1/rules': alertRules,
  '/api/v1/latest': latest,
  '/api/v1/summary': summary,
};

/** Expressions: an aggregation of a function of a selector, each of which may be missing. */
const EXPRESSION = /^(?:(sum|avg|min|max|count|quantile)(?: by \(([^)]*)\) )?\()?(?:[\d.]+, )?(?:(\w+)\()?([a-zA-Z_:][\w:]*)(\{[^}]*\})?(?:\[\w+\])?\)*$/;
const COMBINE = { sum: (all) => all.reduce((a, b) => a + b, 0), avg: (all) => COMBINE.sum(all) / all.length, min: (all) => Math.min(...all), max: (all) => Math.max(...all), count: (all) => all.length, quantile: (all) => all.sort((a, b) => a - b)[Math.floor((all.length - 1) * 0.95)] };

/** Values of an expression in PromQL: enough of the language for what the page writes. */
function queryRange(search) {
  const text = search.get('query');
  const found = EXPRESSION.exec(text);
  if (found === null || text.split('(').length !== text.split(')').length) fail('invalid parameter "query": parse error: unclosed left parenthesis');
  const [, aggregate, by, over, metric, conditions] = found;
  const [start, end, step] = ['start', 'end', 'step'].map((name) => Number(search.get(name)) * 1000);
  const [measurement, field] = Object.entries(MEASUREMENTS).flatMap(([name, { fields }]) => Object.keys(fields).map((one) => [name, one])).find(([name, one]) => metric === `${name}_${one}`) ?? [];
  const groups = new Map();
  for (const { tags } of measurement === undefined ? [] : sources(measurement + (conditions ?? ''))) {
    const labels = aggregate === undefined ? tags : Object.fromEntries((by ?? '').split(', ').filter((tag) => tag in tags).map((tag) => [tag, tags[tag]]));
    const key = JSON.stringify(labels);
    groups.set(key, { labels, members: [...(groups.get(key)?.members ?? []), tags] });
  }
  const at = (ms, tags) => Number(MEASUREMENTS[measurement].fields[field][1](ms, tags));
  const value = (ms, tags) => (over === 'rate' ? (at(ms, tags) - at(ms - 60_000, tags)) / 60 : at(ms, tags));
  const named = aggregate === undefined && over === undefined ? { __name__: metric } : {};
  const result = [...groups.values()].map(({ labels, members }) => {
    const values = [];
    for (let ms = start; ms <= end; ms += step) {
      const all = members.map((tags) => value(ms, tags));
      values.push([ms / 1000, String(aggregate === undefined ? all[0] : COMBINE[aggregate](all))]);
    }
    return { metric: { ...named, ...labels }, values };
  });
  return { status: 'success', data: { resultType: 'matrix', result: result.slice(0, Number(search.get('limit') ?? 1e9)) } };
}

/** Rules of alerts: a recording rule, one that fires for one source and is pending for another. A sick server has one that fails, too. */
function alertRules() {
  if (scenario === 'empty') return { data: { groups: [] } };
  const alert = (host, state, minutes, value) => ({
    labels: { alertname: 'HostIsBusy', host, severity: 'page' },
    annotations: { summary: `${host} has used ${value} % of its processors for ten minutes` },
    state,
    activeAt: new Date(STARTED - minutes * 60e3).toISOString(),
    value,
  });
  const busy = { type: 'alerting', name: 'HostIsBusy', query: 'host_load_load1', health: 'ok', lastError: '', alerts: [alert('buoy', 'pending', 3, '91.5'), alert('anchor', 'firing', 14, '96.25')] };
  const recorded = { type: 'recording', name: 'hosts:load:mean', query: 'avg(host_load_load1)', health: 'ok', lastError: '' };
  const fails = { type: 'alerting', name: 'DiskFillsUp', query: 'host_fs_free < 1e9', health: 'err', lastError: 'the query needs more than 64 MiB', alerts: [] };
  return { data: { groups: [{ name: 'hosts', rules: scenario === 'sick' ? [recorded, busy, fails] : [recorded, busy] }] } };
}

/** Dashboards: documents with their revisions, by name. */
const dashboards = new Map();
const DASHBOARDS = '/api/v1/dashboards';

function dashboard(request, path, body) {
  if (path === DASHBOARDS) {
    const lines = [...dashboards].filter(([, { text }]) => text !== '').sort().map(([name, { text, revision }]) => ({ name, revision, panels: JSON.parse(text).panels.length, bytes: text.length }));
    return [200, { dashboards: lines }];
  }
  const name = decodeURIComponent(path.slice(DASHBOARDS.length + 1));
  const old = dashboards.get(name);
  const present = old === undefined || old.text === '' ? null : old.revision;
  if (request.method === 'GET') return present === null ? fail(`there is no dashboard "${name}"`, 404, 'not found') : [200, JSON.parse(old.text), `"${present}"`];
  const match = request.headers['if-match'];
  if (match === undefined && present !== null && request.method === 'PUT') fail(`the dashboard "${name}" exists; read it, and send its revision as If-Match: "${present}"`, 409, 'conflict');
  if (match !== undefined && match !== '*' && match !== `"${present}"`) fail(`somebody else changed the dashboard "${name}": its revision is ${present}, and yours is ${match}; read it again`, 412, 'conflict');
  const revision = (old?.revision ?? 0) + 1;
  dashboards.set(name, { text: request.method === 'DELETE' ? '' : body, revision });
  return request.method === 'DELETE' ? [204, null] : [match === undefined ? 201 : 200, { name, revision }, `"${revision}"`];
}

/** Rows of a statement: a few of host_cpu, whatever the statement selects from it. */
function sql(text) {
  if (scenario === 'young') fail('SQL needs the program seiner-sql, and there is no /usr/bin/seiner-sql; build it with `make sql`, or set sql_program', 503, 'unavailable');
  const ends = [...text.matchAll(/TIMESTAMP '([^']+)'/g)].map(([, time]) => Date.parse(time));
  if (!/\bFROM host_cpu\b/i.test(text)) fail("Error during planning: table 'nope' not found");
  const [from, to] = ends.length === 2 ? ends : [Date.now() - 36e5, Date.now()];
  if (/count\(/i.test(text)) return hosts.map((host) => ({ host, n: 1800 }));
  const every = Math.max(60_000, (to - from) / 200);
  return hosts.flatMap((host) => Array.from({ length: Math.floor((to - from) / every) }, (_, i) => ({ t: new Date(from + i * every).toISOString(), host, usage: load(from + i * every, { host, core: 'all' }) })));
}

async function bodyOf(request) {
  let text = '';
  for await (const piece of request) text += piece;
  return text;
}

async function asset(path, response) {
  const file = join(DIST, normalize(path === '/' ? '/index.html' : path));
  try {
    const body = await readFile(file);
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': POLICY }).end(body);
  } catch {
    response.writeHead(404).end();
  }
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://mock');
  if (request.method === 'POST' && url.pathname === '/mock') {
    scenario = url.searchParams.get('scenario') ?? 'calm';
    dashboards.clear();
    response.writeHead(204).end();
    return;
  }
  const body = await bodyOf(request);
  const isDashboard = url.pathname.startsWith(DASHBOARDS);
  const call = url.pathname === '/api/v1/sql' ? () => sql(new URLSearchParams(body).get('q') ?? url.searchParams.get('q')) : isDashboard ? () => dashboard(request, url.pathname, body) : CALLS[url.pathname];
  if (call === undefined) {
    void asset(url.pathname, response);
    return;
  }
  if (scenario === 'gone') {
    request.socket.destroy();
    return;
  }
  if (scenario === 'locked' && request.headers.authorization !== 'Bearer right') {
    const answer = { error: 'this server needs a token', code: 'unauthorized', message: 'this server needs a token' };
    response.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    return;
  }
  try {
    const answer = call(url.searchParams);
    const [status, json, tag] = isDashboard ? answer : [200, answer];
    response.writeHead(status, { 'content-type': 'application/json', ...(tag === undefined ? {} : { etag: tag }) }).end(json === null ? '' : JSON.stringify(json));
  } catch (error) {
    const answer = { error: error.message, code: error.code ?? 'internal', message: error.message };
    response.writeHead(error.status ?? 500, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }
});

const port = Number(process.env.PORT ?? 7671);
server.listen(port, '127.0.0.1', () => console.log(`mock of the server: http://127.0.0.1:${port}`));
