// The planner: a form for the demand, and the plan for this machine. The server uses the code of `seiner plan`.

import * as api from '../api';
import { h, put, table as plainTable, type Child } from '../dom';
import * as format from '../format';
import { clean, command, QUESTIONS, type Demand, type Question } from './demand';

function card(title: string, name: string, ...children: Child[]): HTMLElement {
  return h('section', { class: `card ${name}`, 'aria-label': title }, h('h2', {}, title), ...children);
}

function table(caption: string, heads: string[], rows: Child[][]): HTMLElement {
  const body = rows.map(([first, ...rest]) => h('tr', {}, h('th', { scope: 'row' }, first), ...rest.map((cell) => h('td', {}, cell))));
  return plainTable(caption, heads, h('tbody', {}, ...body));
}

type Control = HTMLInputElement | HTMLSelectElement;

function control(question: Question): Control {
  const id = `plan-${question.name}`;
  if (question.choices === undefined) return h('input', { id, name: question.name, placeholder: question.hint, autocomplete: 'off', spellcheck: 'false' });
  return h('select', { id, name: question.name }, ...question.choices.map(([value, label]) => h('option', { value }, label)));
}

function figures(plan: api.Plan, details: boolean): HTMLElement {
  const shown = plan.figures.filter((figure) => figure.is_detail === details);
  return table(details ? 'Details' : 'Forecast', ['Figure', 'Value', 'Origin'], shown.map((figure) => [figure.name, figure.value, figure.origin]));
}

function configuration(toml: string): HTMLElement {
  const file = `data:text/plain;charset=utf-8,${encodeURIComponent(toml)}`;
  const save = h('a', { href: file, download: 'seiner.toml', class: 'small' }, 'Save as seiner.toml');
  return card(
    'Configuration',
    'wide',
    h('pre', { class: 'toml', tabindex: 0 }, toml),
    h('p', { class: 'foot' }, save, ', and start the server with ', h('code', {}, 'seiner serve --config seiner.toml'), '.'),
  );
}

export class Plan {
  readonly root = h('div', { class: 'plan' });
  private readonly controls = new Map<string, Control>(QUESTIONS.map((question) => [question.name, control(question)]));
  /** Questions that most users need not answer. */
  private readonly more = h('details', { class: 'more' });
  private readonly notices = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly answer = h('div', { class: 'cards' });
  private readonly submit = h('button', { type: 'submit', class: 'small' }, 'Plan');
  private flight: AbortController | null = null;
  private shown = '';

  constructor(private readonly navigate: (demand: Demand) => void) {
    const own = h('button', { type: 'button', class: 'small', title: 'Take sensors, rate and compression from this store' }, 'Use this store');
    own.addEventListener('click', () => this.navigate({ ...this.demand(), own: 'true' }));
    const ask = (question: Question): HTMLElement =>
      h('div', { class: 'ask', title: question.title }, h('label', { for: `plan-${question.name}` }, question.label), this.controls.get(question.name));
    const of = (rare: boolean): HTMLElement[] => QUESTIONS.filter((question) => (question.rare === true) === rare).map(ask);
    put(this.more, h('summary', {}, 'More'), h('div', { class: 'demand' }, ...of(true)));
    const form = h('form', {}, h('div', { class: 'demand' }, ...of(false)), this.more, h('div', { class: 'does' }, this.submit, own));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.navigate(this.demand());
    });
    put(this.root, card('Demand', 'wide', form, h('p', { class: 'foot' }, 'Computes whether the demand fits this machine, and the settings. The engine is tested in memory with such samples, which takes a few seconds.')), this.notices, this.answer);
  }

  /** Shows a demand, and requests its plan unless it is already shown. */
  show(demand: Demand): void {
    for (const [name, element] of this.controls) element.value = demand[name] ?? '';
    if (QUESTIONS.some((question) => question.rare === true && question.name in demand)) this.more.open = true;
    const asked = JSON.stringify(demand);
    if (asked === this.shown) return;
    this.shown = asked;
    this.stop();
    if (Object.keys(demand).length > 0) void this.ask(demand);
    else put(this.answer);
  }

  stop(): void {
    this.flight?.abort();
    this.flight = null;
    this.busy(false);
  }

  reload(): void {
    const demand: Demand = JSON.parse(this.shown === '' ? '{}' : this.shown) as Demand;
    this.shown = '';
    this.show(demand);
  }

  private demand(): Demand {
    return clean([...this.controls].map(([name, element]) => [name, element.value]));
  }

  private busy(is: boolean): void {
    this.submit.disabled = is;
    this.submit.textContent = is ? 'Planning …' : 'Plan';
    this.answer.classList.toggle('stale', is);
  }

  private async ask(demand: Demand): Promise<void> {
    const flight = new AbortController();
    this.flight = flight;
    put(this.notices);
    this.busy(true);
    try {
      const plan = await api.plan(demand, flight.signal);
      this.render(plan, demand);
    } catch (error) {
      if (flight.signal.aborted) return;
      this.shown = '';
      put(this.answer);
      put(this.notices, h('p', { class: 'notice severe' }, error instanceof Error ? error.message : String(error)));
    }
    this.busy(false);
  }

  private render(plan: api.Plan, demand: Demand): void {
    put(this.notices, ...plan.warnings.map((text) => h('p', { class: 'notice' }, text)));
    const verdict = plan.fits ? h('p', { class: 'verdict' }, 'It fits this machine.') : h('p', { class: 'verdict severe' }, 'It does not fit this machine.');
    const values = plan.fields === 1 ? 'a value' : `${format.count(plan.fields)} values`;
    const asked = `${format.count(plan.sensors)} sensors, ${values} each, every ${format.duration(plan.every_s * 1e9)}`;
    put(
      this.answer,
      card('Verdict', 'wide', verdict, h('ul', {}, ...plan.obstacles.map((text) => h('li', {}, text))), h('p', { class: 'foot' }, asked)),
      plan.ways.length > 0 &&
        card(
          'Changes that fit',
          'wide',
          table('Changes that fit', ['Change', 'Of the budget', 'Written per second', 'Memory', 'Disadvantage'], plan.ways.map((way) => [way.what, `${(100 * way.v).toPrecision(2)} %`, format.bytes(way.written_per_s), format.bytes(way.memory), way.gives_up])),
        ),
      !plan.fits &&
        plan.ways.length === 0 &&
        card('Changes that fit', 'wide', h('p', { class: 'foot' }, 'No single change suffices. Use more machines and keep less.')),
      card('Forecast', 'wide forecast', figures(plan, false), h('details', {}, h('summary', {}, 'Details'), figures(plan, true))),
      plan.toml !== null && configuration(plan.toml),
      card('The same on the command line', 'wide', h('pre', { class: 'toml', tabindex: 0 }, command(demand, location.origin))),
    );
  }
}
