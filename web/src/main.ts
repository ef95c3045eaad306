// The page: a header and the view from the address.

import * as access from './access';
import { Dashboard } from './dashboards/dashboard';
import { DashboardList } from './dashboards/list';
import { savePanel } from './dashboards/save-panel';
import { h, put } from './dom';
import { Explorer } from './explorer/explorer';
import * as format from './format';
import { helpOverlay } from './help';
import { emptyExplorer, read, write, type ExplorerState, type PageState } from './location';
import { loginDialog } from './login';
import { logo } from './logo';
import { Overview } from './overview/overview';
import { Plan } from './plan/plan';
import { Storage } from './storage/storage';
import * as theme from './theme';

theme.start();

const TITLES: Record<PageState['page'], string> = { overview: 'Seiner', explorer: 'Explorer · Seiner', dashboards: 'Dashboards · Seiner', dashboard: 'Dashboard · Seiner', storage: 'Storage · Seiner', plan: 'Plan · Seiner' };
const heading = h('h1', { class: 'unseen' });
const main = document.getElementById('main')!;
const links = {
  overview: h('a', { href: '#/' }, 'Overview'),
  explorer: h('a', { href: write({ page: 'explorer', explorer: emptyExplorer() }) }, 'Explorer'),
  dashboards: h('a', { href: write({ page: 'dashboards' }) }, 'Dashboards'),
  storage: h('a', { href: write({ page: 'storage' }) }, 'Storage'),
  plan: h('a', { href: write({ page: 'plan', demand: {} }) }, 'Plan'),
};
const help = helpOverlay();
let overview: Overview | null = null;
let explorer: Explorer | null = null;
let dashboards: DashboardList | null = null;
let dashboard: Dashboard | null = null;
let storage: Storage | null = null;
let plan: Plan | null = null;
let page: PageState['page'] | null = null;

const navigate = (explorer: ExplorerState, how: 'push' | 'replace'): void => go({ page: 'explorer', explorer }, how);

function go(state: PageState, how: 'push' | 'replace'): void {
  const hash = write(state);
  if (hash !== location.hash) history[how === 'push' ? 'pushState' : 'replaceState'](null, '', hash);
  render();
}

function render(): void {
  const state = read(location.hash);
  format.useUtc(state.page === 'explorer' && state.explorer.utc);
  if (page !== state.page) {
    overview?.stop();
    explorer?.stop();
    dashboards?.stop();
    dashboard?.stop();
    storage?.stop();
    plan?.stop();
    page = state.page;
    for (const [name, link] of Object.entries(links)) link.ariaCurrent = name === (page === 'dashboard' ? 'dashboards' : page) ? 'page' : null;
    document.title = TITLES[page];
    heading.textContent = document.title;
    if (state.page === 'overview') {
      overview ??= new Overview();
      put(main, heading, overview.root);
      overview.start();
    } else if (state.page === 'storage') {
      storage ??= new Storage();
      put(main, heading, storage.root);
      storage.begin();
    } else if (state.page === 'plan') {
      plan ??= new Plan((demand) => {
        const hash = write({ page: 'plan', demand });
        if (hash === location.hash) plan?.reload();
        else location.hash = hash;
      });
      put(main, heading, plan.root);
    } else if (state.page === 'dashboards') {
      dashboards ??= new DashboardList();
      put(main, heading, dashboards.root);
      void dashboards.start();
    } else if (state.page === 'dashboard') {
      dashboard ??= new Dashboard((view, how) => go({ page: 'dashboard', view }, how));
      put(main, heading, dashboard.root);
    } else {
      explorer ??= new Explorer(navigate, (state) => void savePanel(state));
      put(main, heading, explorer.root);
    }
  }
  if (state.page === 'plan') {
    links.plan.setAttribute('href', location.hash);
    plan!.show(state.demand);
  }
  if (state.page === 'dashboard') {
    document.title = heading.textContent = `${state.view.name} · Seiner`;
    dashboard!.show(state.view);
  }
  if (state.page === 'explorer') {
    links.explorer.setAttribute('href', location.hash);
    explorer!.show(state.explorer);
  }
}

function header(): void {
  const themeButton = h('button', { type: 'button', class: 'plain', title: 'Light or dark (t)', 'aria-label': 'Switch between light and dark' }, '◐');
  themeButton.addEventListener('click', theme.toggle);
  const helpButton = h('button', { type: 'button', class: 'plain', title: 'Keys (?)', 'aria-label': 'Show the keys' }, '?');
  helpButton.addEventListener('click', () => help.showModal());
  put(
    document.getElementById('bar')!,
    h('a', { class: 'brand', href: '#/', 'aria-label': 'Seiner, overview' }, logo(), 'Seiner'),
    h('nav', { 'aria-label': 'Pages' }, links.overview, links.explorer, links.dashboards, links.storage, links.plan),
    h('span', { class: 'spring' }),
    themeButton,
    helpButton,
  );
  document.body.append(help);
}

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'SELECT', 'TEXTAREA'].includes(target.tagName));

const everywhere: Record<string, () => void> = {
  t: theme.toggle,
  '?': () => help.showModal(),
  '/': () => {
    if (page !== 'explorer') navigate(emptyExplorer(), 'push');
    explorer?.search();
  },
  r: () => {
    const views = { overview, dashboards: null, dashboard, storage, plan, explorer };
    if (page === 'dashboards') void dashboards?.start();
    else views[page ?? 'overview']?.reload();
  },
};

const onExplorer: Record<string, () => void> = {
  f: () => explorer?.toggleFollow(),
  ArrowLeft: () => explorer?.move({ pan: -0.25 }),
  ArrowRight: () => explorer?.move({ pan: 0.25 }),
  '+': () => explorer?.move({ zoom: 0.5 }),
  '=': () => explorer?.move({ zoom: 0.5 }),
  '-': () => explorer?.move({ zoom: 2 }),
  Escape: () => explorer?.back(),
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open || typing(event.target)) return;
  const action = everywhere[event.key] ?? (page === 'explorer' ? onExplorer[event.key] : undefined);
  if (action === undefined) return;
  event.preventDefault();
  action();
});
window.addEventListener('popstate', render);

header();
access.onDenied(loginDialog);
render();
