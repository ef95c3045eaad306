// What the form asks, as texts by name: those of `seiner plan` and of /api/v1/plan.

export interface Question {
  name: string;
  label: string;
  /** What stands in an empty field: what is taken then. */
  hint: string;
  title: string;
  /** Where only some texts are answers; the first is the one when nothing is said. */
  choices?: [value: string, label: string][];
}

const ON: [string, string][] = [['', 'no'], ['true', 'yes']];

export const QUESTIONS: Question[] = [
  { name: 'sensors', label: 'Sensors', hint: 'such as 1e6', title: 'S: how many there are' },
  { name: 'every', label: 'Each sends every', hint: '10s', title: 'The time between two rows of a sensor' },
  { name: 'fields', label: 'Values a row', hint: '1', title: 'Values that a sensor sends at a time' },
  { name: 'keep', label: 'Keep for', hint: '365d', title: 'How long samples are kept, such as 30d or 5y' },
  { name: 'class', label: 'Or by class', hint: 'raw:90%:30d:accel; rest:10%:5y', title: 'NAME:SHARE:KEEP[:SELECTOR], separated by semicolons; shares make 100 %' },
  { name: 'values', label: 'Values are', hint: '', title: 'It decides how well they compress', choices: [['', 'decimals that change a little'], ['counters', 'counters'], ['floats', 'floats with all digits']] },
  { name: 'jittered', label: 'Times are late by ms', hint: '', title: 'Random delays; they decide what times cost', choices: ON },
  { name: 'synced', label: 'A power cut loses nothing', hint: '', title: 'Otherwise up to 100 ms of what was acknowledged', choices: ON },
  { name: 'ram', label: 'Memory', hint: 'of this machine', title: 'Of the machine, such as 8GiB' },
  { name: 'processors', label: 'Processors', hint: 'of this machine', title: 'Of the machine' },
  { name: 'room', label: 'Room on the disk', hint: 'free here', title: 'Such as 2TB' },
  { name: 'budget', label: 'Disk budget', hint: 'nearly all of it', title: 'C: what the store may take' },
  { name: 'tbw', label: 'Written in its life', hint: 'such as 290TB', title: 'TBW, as the data sheet of the SSD says' },
  { name: 'raid', label: 'Array', hint: 'such as 6:6:16KiB', title: 'LEVEL:MEMBERS:STRIP' },
];

/** Answers by name; empty ones are left out, and so is what is no question. */
export type Demand = Record<string, string>;

export function clean(answers: Iterable<[string, string]>): Demand {
  const demand: Demand = {};
  for (const [name, text] of answers) {
    const known = name === 'own' ? text === 'true' : QUESTIONS.some((question) => question.name === name);
    if (known && text.trim() !== '') demand[name] = text.trim();
  }
  return demand;
}

/** The command line that plans the same, for those who would rather type it. */
export function command(demand: Demand, origin: string): string {
  const words = ['seiner', 'plan'];
  for (const [name, text] of Object.entries(demand)) {
    if (name === 'own') words.push('--from', origin);
    else if (name === 'jittered' || name === 'synced') words.push(`--${name}`);
    else for (const one of name === 'class' ? text.split(';') : [text]) words.push(`--${name}`, quoted(one.trim()));
  }
  return words.join(' ');
}

const quoted = (text: string): string => (/^[\w.:%/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
