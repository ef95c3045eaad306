// Formatting of figures for people.

const DASH = '–';
const SI = ['', 'k', 'M', 'G', 'T', 'P'];
const IEC = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** Formats a number with three significant digits, without trailing zeros: 1234 → 1.23 k. */
export function si(value: number | null | undefined, unit = ''): string {
  if (value === null || value === undefined || Number.isNaN(value)) return DASH;
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  let power = 0;
  while (power < SI.length - 1 && size / 1000 ** power >= 999.5) power += 1;
  const suffix = `${SI[power]}${unit}`;
  return `${digits(value / 1000 ** power)}${suffix && ` ${suffix}`}`;
}

/** Formats bytes in powers of 1024. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return DASH;
  const size = Math.abs(value);
  let power = 0;
  while (power < IEC.length - 1 && size / 1024 ** power >= 1023.5) power += 1;
  return `${digits(value / 1024 ** power)} ${IEC[power]}`;
}

/** Formats a whole number with separators: 1234567 → 1,234,567. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return DASH;
  return Math.round(value).toLocaleString('en-US');
}

/** Formats a number with three significant digits. */
export function digits(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 100) return String(Math.round(value));
  const text = value.toPrecision(3);
  return text.includes('e') ? value.toExponential(2) : text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Formats a sample's value as exactly as is readable. */
export function sample(value: number | bigint | null | undefined): string {
  if (value === null || value === undefined) return DASH;
  if (typeof value === 'bigint') return value.toLocaleString('en-US');
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+∞' : '−∞';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || (size >= 1e15 && !Number.isSafeInteger(value)))) return value.toExponential(4);
  // The mean of large samples must not look smaller than the smallest sample.
  if (Number.isInteger(value) || size >= 1e6) return Math.round(value).toLocaleString('en-US');
  return value.toLocaleString('en-US', { maximumSignificantDigits: 6 });
}

const UNITS: [string, number][] = [
  ['d', 86_400e9],
  ['h', 3_600e9],
  ['m', 60e9],
  ['s', 1e9],
  ['ms', 1e6],
  ['µs', 1e3],
  ['ns', 1],
];

/** Formats a duration in ns with its two largest units: 3725 s → 1h 2m. */
export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return DASH;
  if (ns <= 0) return '0 s';
  const first = UNITS.findIndex(([, size]) => ns >= size);
  if (first < 0) return `${digits(ns)} ns`;
  const [unit, size] = UNITS[first]!;
  if (size <= 1e9) return `${digits(ns / size)} ${unit}`;
  const whole = Math.floor(ns / size);
  const [nextUnit, nextSize] = UNITS[first + 1]!;
  const rest = Math.floor((ns - whole * size) / nextSize);
  return rest > 0 ? `${whole}${unit} ${rest}${nextUnit}` : `${whole}${unit}`;
}

/** Formats a step in the notation of the server: 10s, 500ms, 1h. */
export function step(ns: number): string {
  const unit = UNITS.find(([, size]) => ns >= size && ns % size === 0) ?? UNITS[UNITS.length - 1]!;
  return `${ns / unit[1]}${unit[0] === 'µs' ? 'us' : unit[0]}`;
}

let isUtc = false;

/** Chooses the zone of all times: UTC, or the zone of the browser. */
export function useUtc(utc: boolean): void {
  isUtc = utc;
}

/** Returns true if times are in UTC. */
export const utc = (): boolean => isUtc;

/** Returns a date whose parts in UTC are those of the moment in the chosen zone. */
function zoned(ms: number): Date {
  return new Date(isUtc ? ms : ms - new Date(ms).getTimezoneOffset() * 60e3);
}

const pad = (value: number, width = 2): string => String(value).padStart(width, '0');

/** Formats a moment in the chosen zone. `fractions` adds milliseconds. */
export function moment(ms: number, fractions = false): string {
  const date = zoned(ms);
  if (Number.isNaN(date.getTime())) return DASH;
  const day = `${date.getUTCFullYear()}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`;
  const time = `${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}:${pad(date.getUTCSeconds())}`;
  return `${day} ${time}${fractions ? `.${pad(date.getUTCMilliseconds(), 3)}` : ''}`;
}

/** Returns a moment as the value of an `<input type="datetime-local">`. */
export function local(ms: number): string {
  return moment(ms).replace(' ', 'T');
}

/** Parses the value of an `<input type="datetime-local">`. */
export function parseLocal(text: string): number {
  return new Date(isUtc ? `${text}Z` : text).getTime();
}

/** Formats a series' tags on one line: core=0 host=a. */
export function tags(of: Record<string, string>): string {
  return Object.entries(of)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

/** Returns a part of a whole as a percentage; null if there is no whole. */
export function share(part: number | null | undefined, whole: number | null | undefined): number | null {
  if (!Number.isFinite(part ?? NaN) || !whole || whole <= 0) return null;
  return Math.min(100, Math.max(0, ((part as number) / whole) * 100));
}

const DECIMALS = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const isWhole = (value: number): boolean => Math.abs(value - Math.round(value)) < 1e-6 * Math.max(1, value);

/** Returns the labels of a value axis: all in one unit, with enough decimals that neighbours differ. */
export function axisValues(splits: readonly number[]): string[] {
  const most = Math.max(...splits.map(Math.abs));
  const power = most < 1e4 ? 0 : Math.min(SI.length - 1, Math.floor(Math.log10(most) / 3));
  const scale = 1000 ** power;
  const distance = Math.abs((splits[1] ?? most) - (splits[0] ?? 0)) / scale;
  if (most >= 1e18 || (distance > 0 && distance < 1e-6)) return splits.map((value) => (value === 0 ? '0' : value.toExponential(2)));
  const decimals = distance > 0 ? DECIMALS.find((places) => isWhole(distance * 10 ** places)) ?? 8 : 0;
  const text = (value: number): string => value.toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return splits.map((value) => (value === 0 ? '0' : `${text(value / scale)}${power > 0 ? ` ${SI[power]}` : ''}`));
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Returns the labels of a time axis: the time of day. The first label and each new day also have the date below. */
export function axisTimes(splits: readonly number[], increment: number, days = true): string[] {
  let day = '';
  return splits.map((ms) => {
    const date = zoned(ms);
    const today = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
    if (increment >= 86_400e3) {
      const year = String(date.getUTCFullYear());
      const label = year === day ? today : `${today}\n${year}`;
      day = year;
      return label;
    }
    const time = moment(ms, increment < 1000).slice(11);
    const clock = increment < 60e3 ? time : time.slice(0, 5);
    const label = today === day || !days ? clock : `${clock}\n${today}`;
    day = today;
    return label;
  });
}
