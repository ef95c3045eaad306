// Fields of the form, with the names of `seiner plan` and /api/v1/plan.

export interface Question {
  name: string;
  label: string;
  /** Placeholder with the value that applies to an empty field. */
  hint: string;
  title: string;
  /** True for a question that most users need not answer. */
  rare?: boolean;
  /** Possible values, if they are limited. The first is the default. */
  choices?: [value: string, label: string][];
}

const ON: [string, string][] = [['', 'no'], ['true', 'yes']];

export const QUESTIONS: Question[] = [
  { name: 'sensors', label: 'Sensors', hint: 'such as 1e6', title: 'Number of sensors' },
  { name: 'every', label: 'Each sends every', hint: '10s', title: 'Time between two rows of a sensor' },
  { name: 'fields', label: 'Values per row', hint: '1', title: 'Number of values in a row' },
  { name: 'per_host', rare: true, label: 'Sensors of a host', hint: '1', title: 'They share its tag values, which takes less memory. 1: each sensor has a tag value of its own' },
  { name: 'keep', label: 'Keep for', hint: '365d', title: 'Maximum age of samples, such as 30d or 5y' },
  { name: 'values', label: 'Values are', hint: '', title: 'Determines how well the values compress', choices: [['', 'decimals that change a little'], ['counters', 'counters'], ['floats', 'floats with all digits']] },
  { name: 'space', label: 'Disk space', hint: 'free here', title: 'Such as 2TB' },
  { name: 'class', rare: true, label: 'Or by class', hint: 'raw:90%:30d:accel; rest:10%:5y', title: 'NAME:SHARE:KEEP[:SELECTOR], separated by semicolons; shares make 100 %' },
  { name: 'jittered', rare: true, label: 'Times are late by ms', hint: '', title: 'Random delays; such times compress worse', choices: ON },
  { name: 'synced', rare: true, label: 'A power cut loses nothing', hint: '', title: 'Otherwise a power cut loses up to 100 ms of acknowledged samples', choices: ON },
  { name: 'ram', rare: true, label: 'Memory', hint: 'of this machine', title: 'Of the machine, such as 8GiB' },
  { name: 'processors', rare: true, label: 'Processors', hint: 'of this machine', title: 'Of the machine' },
  { name: 'budget', rare: true, label: 'Disk budget', hint: 'nearly all of it', title: 'Maximum disk usage of the store' },
  { name: 'tbw', rare: true, label: 'Rated writes (TBW)', hint: 'such as 290TB', title: 'Bytes that may be written to the SSD in its life, from its data sheet' },
  { name: 'raid', rare: true, label: 'Array', hint: 'such as 6:6:16KiB', title: 'LEVEL:MEMBERS:STRIP' },
];

/** Values by field name, without empty values and unknown fields. */
export type Demand = Record<string, string>;

export function clean(answers: Iterable<[string, string]>): Demand {
  const demand: Demand = {};
  for (const [name, text] of answers) {
    const known = name === 'own' ? text === 'true' : QUESTIONS.some((question) => question.name === name);
    if (known && text.trim() !== '') demand[name] = text.trim();
  }
  return demand;
}

/** Returns the command line that computes the same plan. */
export function command(demand: Demand, origin: string): string {
  const words = ['seiner', 'plan'];
  for (const [name, text] of Object.entries(demand)) {
    if (name === 'own') words.push('--from', origin);
    else if (name === 'jittered' || name === 'synced') words.push(`--${name}`);
    else for (const one of name === 'class' ? text.split(';') : [text]) words.push(`--${name.replace('_', '-')}`, quoted(one.trim()));
  }
  return words.join(' ');
}

const quoted = (text: string): string => (/^[\w.:%/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
