// List of the dashboards.

import { h, put } from '../dom';
import * as format from '../format';
import { emptyExplorer, write } from '../location';
import * as client from './client';
import { emptyDashboard, nameFault } from './document';

export class DashboardList {
  readonly root = h('div', { class: 'dashboards' });
  private readonly notices = h('div', { class: 'notices', 'aria-live': 'polite' });
  private readonly place = h('div');
  private readonly name = h('input', { type: 'text', id: 'new-dashboard', maxlength: 100, spellcheck: 'false', placeholder: 'Kitchen' });
  private flight: AbortController | null = null;

  constructor() {
    const form = h('form', { class: 'row' }, h('label', { class: 'inline', for: 'new-dashboard' }, 'New dashboard', this.name), h('button', { type: 'submit', class: 'small' }, 'Create'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.create(this.name.value.trim());
    });
    put(this.root, this.notices, h('section', { class: 'card', 'aria-label': 'Dashboards' }, h('h2', {}, 'Dashboards'), this.place, form));
  }

  async start(): Promise<void> {
    this.flight?.abort();
    const { signal } = (this.flight = new AbortController());
    try {
      const found = await client.list(signal);
      put(this.notices);
      put(this.place, found.length === 0 ? none() : table(found));
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  stop(): void {
    this.flight?.abort();
  }

  private async create(name: string): Promise<void> {
    try {
      const fault = nameFault(name);
      if (fault !== null) throw new Error(fault);
      await client.save(name, emptyDashboard(), null);
      this.name.value = '';
      location.hash = address(name);
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    put(this.notices, h('p', { class: 'notice severe' }, error instanceof Error ? error.message : String(error)));
  }
}

const address = (name: string): string => write({ page: 'dashboard', view: { name, interval: null, refresh: null } });

function none(): HTMLElement {
  const explorer = h('a', { href: write({ page: 'explorer', explorer: emptyExplorer() }) }, 'explorer');
  return h('p', { class: 'quiet' }, 'There are no dashboards. Choose data in the ', explorer, ', and press Save as panel.');
}

function table(found: readonly client.Listed[]): HTMLElement {
  const head = h('tr', {}, h('th', { scope: 'col' }, 'name'), h('th', { scope: 'col', class: 'number' }, 'panels'), h('th', { scope: 'col', class: 'number' }, 'changes'));
  const rows = found.map((one) => h('tr', {}, h('td', {}, h('a', { href: address(one.name) }, one.name)), h('td', { class: 'number' }, format.count(one.panels)), h('td', { class: 'number' }, format.count(one.revision))));
  return h('table', { class: 'legend', 'aria-label': 'Dashboards' }, h('thead', {}, head), h('tbody', {}, ...rows));
}
