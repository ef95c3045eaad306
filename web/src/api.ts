// Typed API of the server. An error response becomes a ServerError with the server's message.

import * as access from './access';

export type FieldType = 'f64' | 'f32' | 'i64' | 'u64' | 'bool' | 'string';

export interface Field {
  name: string;
  type: FieldType;
}

export interface SeriesKey {
  measurement: string;
  tags: Record<string, string>;
  field: string;
  type: FieldType;
}

/** Number in JSON. NaN and infinities, which JSON lacks, are texts. Integers beyond 2^53 are bigints. */
export type WireNumber = number | bigint | null | 'NaN' | 'Infinity' | '-Infinity';

/** Aggregates of a series. They are numbers for every type of field; only /fields has the type. */
export interface Stepped extends Omit<SeriesKey, 'type'> {
  times: number[];
  mean?: WireNumber[];
  min?: WireNumber[];
  max?: WireNumber[];
  count?: number[];
  last?: WireNumber[];
}

export interface Raw extends SeriesKey {
  times: number[];
  values: (WireNumber | boolean | string)[];
}

export interface Level {
  from: string;
  to: string;
  step_ns: number;
}

export interface Answer<S> {
  from: string;
  to: string;
  step_ns?: number;
  /** Intervals in which rows of a roll-up replace expired samples; times in ns. */
  levels?: Level[];
  series: S[];
  truncated: boolean;
  /** Sentences for the reader: unknown names, and the reason of an empty answer. */
  hints?: string[];
  /** Interval that has samples, if the requested one has none; ns. */
  range?: { from: string; to: string };
}

export interface Status {
  version?: string;
  uptime_s?: number;
  durability?: { mode?: string; interval_ms?: number };
  data_directory?: string;
  engine?: Partial<Record<EngineFigure, number>> & { poisoned?: string | null };
  ingest?: { rows?: number; rows_per_s?: number; samples_per_s?: number; rejected_lines?: number; requests_in_flight?: number };
  troubles?: Trouble[];
  losses?: Loss[];
  cluster?: Cluster | null;
  process?: { rss_bytes?: number; cpu_s?: number };
  disk?: { total_bytes?: number; free_bytes?: number; used_by_store_bytes?: number };
}

/** State of a port of a cluster. */
export interface Cluster {
  port: string;
  keyspace: string;
  samples_handed_over: number;
  bundle_bytes: number;
  takeovers: number;
  nodes: ClusterNode[];
}

/** Node of the distributed store. */
export interface ClusterNode {
  address: string;
  is_up: boolean;
}

/** Port of a cluster as it publishes itself. */
export interface Port {
  name: string;
  address: string;
  samples_per_second: number;
  unflushed_rows: number;
  handover_lag_s: number;
  /** Share of new load that the port should get, relative to others. */
  weight: number;
  trouble: string | null;
  is_this: boolean;
}

/** Trouble with its remedy. The server lists the worst first. */
export interface Trouble {
  /** Status of `/health` to which the trouble leads. */
  health: 'fail' | 'warn' | 'pass';
  text: string;
}

/** Loss of accepted data; times in ns. */
export interface Loss {
  file: string;
  what: string;
  rows: number | null;
  /** True if `rows` is an upper bound. */
  at_most: boolean;
  from: string | null;
  to: string | null;
  found_at: string;
}

export type EngineFigure =
  | 'sources'
  | 'series'
  | 'samples_accepted'
  | 'unsynced_samples'
  | 'unsynced_bytes'
  | 'unsynced_age_ns'
  | 'buffered_rows'
  | 'buffer_bytes'
  | 'dictionary_bytes'
  | 'memory_used_bytes'
  | 'memory_budget_bytes'
  | 'journal_bytes'
  | 'journal_files'
  | 'segments'
  | 'segment_bytes'
  | 'open_segments'
  | 'open_segment_bytes'
  | 'blocks_sealed'
  | 'sealed_block_bytes'
  | 'samples_sealed'
  | 'damaged_segments';

/** Usage of the disk budget, in bytes and shares. */
export interface DiskSpace {
  budget: number | null;
  /** Bytes of files, and bytes allotted to future files. */
  used: number;
  files: number;
  allotted: number;
  live: number;
  reserved: number;
  u: number;
  um: number;
  v: number;
  hunger: number;
}

export interface Lane {
  id: number;
  /** Minimum remaining life of its blocks, ns; null for blocks that never expire. */
  from_ns: number | null;
  to_ns: number | null;
  flow_share: number;
  segment_bytes: number;
}

export interface Segment {
  number: number;
  lane: number;
  bytes: number;
  live: number;
  dead: number;
  open: boolean;
  born: number;
  dies: number | null;
}

export interface LogClass {
  name: string;
  select: string;
  age_ns: number | null;
  rows: number | null;
  bytes: number | null;
  /** Step length of a roll-up level; the name begins with the name of its class. */
  step_ns?: number;
  priority: number;
  when_full: string;
  sources: number;
  live: number;
  hidden_before: number | null;
}

/** Bytes written in a period. */
export interface Period {
  seconds: number;
  stored: number;
  merged: number;
  journal: number;
  segments: number;
  process: number;
  device: number | null;
  per_byte: number | null;
}

export interface LogReport {
  now: number;
  space: DiskSpace;
  planing: boolean;
  segment_bytes: number;
  planing_segment_bytes: number | null;
  policy: string;
  average_dead_share: number | null;
  written: { hour: Period; day: Period; start: Period };
  device: { name: string; written: number | null; per_day: number | null; tbw: number | null; life_days: number | null } | null;
  lanes: Lane[];
  segments: Segment[];
  classes: LogClass[];
  troubles: Trouble[];
}

export interface Decision {
  at: number;
  policy: string;
  u: number;
  um: number;
  v: number;
  hunger: number;
  least_dead_share: number | null;
  average_dead_share: number | null;
  candidates: number;
  drop: number[];
  merge: { number: number; dead_share: number; live: number; gain: number; score: number }[];
}

export interface Plan {
  fits: boolean;
  sensors: number;
  fields: number;
  every_s: number;
  obstacles: string[];
  figures: { name: string; value: string; origin: string; is_detail: boolean }[];
  ways: { what: string; gives_up: string; v: number; written_per_s: number; memory: number }[];
  warnings: string[];
  /** The configuration for `seiner serve --config`, if the demand fits. */
  toml: string | null;
}

/** Series in an answer of Prometheus: its labels, and its values as texts with times in s. */
export interface PromSeries {
  metric: Record<string, string>;
  values: [number, string][];
}

/** Rule of alerts or of a recorded series, as the API of Prometheus lists it. */
export interface Rule {
  type: 'alerting' | 'recording';
  name: string;
  /** Expression in PromQL. */
  query: string;
  health: 'ok' | 'err' | 'unknown';
  lastError: string;
  /** Alerts of a rule that does not record. */
  alerts?: ActiveAlert[];
}

/** Alert that fires, or will fire when its condition has lasted long enough. */
export interface ActiveAlert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: 'pending' | 'firing';
  /** Time in the form of RFC 3339. */
  activeAt: string;
  /** Number as a text. */
  value: string;
}

/** Contents of a measurement. */
export interface Summary {
  measurement: string;
  sources: number;
  /** Tags with the number of their values. `more` is true if there are more values than were counted. */
  tags: { name: string; values: number; more?: boolean }[];
  fields: Field[];
  /** Dates of the first and last sample; null without samples. */
  first: string | null;
  last: string | null;
  bytes: number | null;
}

/** Error answer of the server, or a failed connection. */
export class ServerError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export type Parameters = Record<string, string | number | undefined>;

/** Returns the address of a call, which can also be a link. */
export function address(path: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** Downloads the answer of an address with the token of this tab, which links cannot send. */
export async function download(href: string, name: string): Promise<void> {
  const response = await fetch(href, { headers: access.headers() });
  if (!response.ok) throw new ServerError(await reason(response), response.status);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  // The browser reads the address before it returns to this task.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Sends a request. */
export async function send(method: string, path: string, { signal, ...rest }: { signal?: AbortSignal | undefined; body?: BodyInit; headers?: Record<string, string> } = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { method, ...rest, headers: { accept: 'application/json', ...access.headers(), ...rest.headers }, signal: signal ?? null, cache: 'no-store' });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerError('The server does not answer. Is it running?', 0);
  }
  if (response.ok) return response;
  const text = await reason(response);
  if (response.status === 401) access.denied();
  throw new ServerError(text, response.status);
}

async function get<T>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  const response = await send('GET', address(path, parameters), { signal });
  try {
    return parse(await response.text()) as T;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerError(`The answer to ${path} broke off or is not JSON.`, response.status);
  }
}

/** Maximum length of an answer to SQL that the page reads, in characters. */
const MOST_SQL = 4 << 20;
/** Path of SQL. */
export const SQL = '/api/v1/sql';

/** Runs a statement in SQL. The rows of a long answer are cut, and the rest is not read. */
export async function sql(q: string, signal: AbortSignal): Promise<{ rows: Record<string, unknown>[]; truncated: boolean }> {
  const response = await send('POST', SQL, { signal, body: new URLSearchParams({ q }) });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    text += value ?? '';
    if (done) break;
    if (text.length > MOST_SQL) {
      await reader.cancel();
      return { rows: rowsOf(text), truncated: true };
    }
  }
  try {
    return { rows: parse(text) as Record<string, unknown>[], truncated: false };
  } catch {
    throw new ServerError('The answer broke off: the query failed after its first rows, or took too long.', response.status);
  }
}

/** Returns the whole rows at the beginning of a list in JSON. */
export function rowsOf(text: string): Record<string, unknown>[] {
  for (let end = text.lastIndexOf('},'); end > 0; end = text.lastIndexOf('},', end - 1)) {
    try {
      return JSON.parse(`${text.slice(0, end + 1)}]`) as Record<string, unknown>[];
    } catch {
      // These two characters were part of a text.
    }
  }
  return [];
}

/** Pattern of integers in lists that may be beyond 2^53, where `JSON.parse` rounds. */
const LONG = /[[,]-?\d{16,}[,\]]/;
/** Pattern of strings and numbers in JSON. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** First character of strings that stand for integers. A text can only contain it if its JSON contains the escape. */
const MARK = '\u0000';
const ESCAPED_MARK = '\\u0000';

/** Parses JSON. Integers in lists that a number cannot hold exactly become bigints. */
export function parse(text: string): unknown {
  if (!LONG.test(text) || text.includes(ESCAPED_MARK)) return JSON.parse(text);
  const marked = text.replace(TOKENS, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${ESCAPED_MARK}${token}"` : token));
  return JSON.parse(marked, function (this: unknown, _key, value: unknown) {
    if (typeof value !== 'string' || !value.startsWith(MARK)) return value;
    const digits = value.slice(MARK.length);
    return Array.isArray(this) ? BigInt(digits) : Number(digits);
  });
}

async function reason(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error, message } = JSON.parse(text) as { error?: string; message?: string };
    return error ?? message ?? text;
  } catch {
    return text.trim() || `${response.status} ${response.statusText}`;
  }
}

export const status = (signal?: AbortSignal): Promise<Status> => get('/status', {}, signal);
export const ports = async (signal?: AbortSignal): Promise<Port[]> =>
  (await get<{ ports: Port[] }>('/ports', {}, signal)).ports;
export const log = (signal?: AbortSignal): Promise<LogReport> => get('/api/v1/log', {}, signal);
export const decisions = (signal?: AbortSignal): Promise<Decision[]> => get('/api/v1/log/why', {}, signal);
export const plan = (demand: Parameters, signal?: AbortSignal): Promise<Plan> => get('/api/v1/plan', demand, signal);
export const measurements = (signal?: AbortSignal): Promise<string[]> => get('/api/v1/measurements', {}, signal);
export const tags = (select: string, signal?: AbortSignal): Promise<string[]> => get('/api/v1/tags', { select }, signal);
export const values = (select: string, tag: string, signal?: AbortSignal): Promise<string[]> =>
  get('/api/v1/values', { select, tag, limit: 1000 }, signal);
export const fields = (select: string, signal?: AbortSignal): Promise<Field[]> => get('/api/v1/fields', { select }, signal);
export const summary = (select: string, signal?: AbortSignal): Promise<Summary[]> => get('/api/v1/summary', select === '' ? {} : { select }, signal);
export const latest = (parameters: Parameters, signal?: AbortSignal): Promise<Answer<Raw>> => get('/api/v1/latest', { ...parameters, times: 'ms' }, signal);
/** Path of the evaluation of an expression over an interval. */
export const RANGE = '/prometheus/api/v1/query_range';
/** Evaluates an expression in PromQL. */
export const queryRange = async (parameters: Parameters, signal?: AbortSignal): Promise<PromSeries[]> =>
  (await get<{ data: { result: PromSeries[] } }>(RANGE, parameters, signal)).data.result;
/** Returns the rules of all groups. */
export const alertRules = async (signal?: AbortSignal): Promise<Rule[]> =>
  (await get<{ data: { groups: { rules: Rule[] }[] } }>('/prometheus/api/v1/rules', {}, signal)).data.groups.flatMap((group) => group.rules);
export const sourceCount = async (select: string, signal?: AbortSignal): Promise<number> =>
  (await get<{ total: number }>('/api/v1/sources', { select, limit: 1 }, signal)).total;
export const stepped = (parameters: Parameters, signal?: AbortSignal): Promise<Answer<Stepped>> =>
  get('/api/v1/query', { ...parameters, times: 'ms' }, signal);
export const raw = (parameters: Parameters, signal?: AbortSignal): Promise<Answer<Raw>> =>
  get('/api/v1/query', { ...parameters, times: 'ms' }, signal);

/** Returns the exact value of a number on the wire. An integer that a number cannot represent stays a bigint. */
export function exact(value: WireNumber | boolean | string | undefined): number | bigint | null {
  return typeof value === 'bigint' ? value : number(value);
}

/** Returns a number on the wire, rounded to a float. null stays null; texts such as `NaN` become their value. */
export function number(value: WireNumber | boolean | string | undefined): number | null {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (value === null || value === undefined) return null;
  const parsed = Number(value);
  return value === 'NaN' || !Number.isNaN(parsed) ? parsed : null;
}
