// Alerts that fire or are pending, and rules that fail, if the server evaluates rules.

import * as api from '../api';
import { h, put, table } from '../dom';
import * as format from '../format';
import { emptyExplorer, write } from '../location';

const POLL_MS = 10e3;
/** Time between two requests to a server without rules. */
const IDLE_MS = 60e3;
/** Maximum number of alerts in the table. */
const MOST = 50;
const HEADS = ['State', 'Alert', 'Labels', 'Since', 'Value', 'Summary'];

/** Alert with its rule. */
interface Row {
  rule: api.Rule;
  alert: api.ActiveAlert;
}

/** Returns the alerts of all rules: those that fire first, then the ones that began earliest. */
export function activeAlerts(rules: readonly api.Rule[]): Row[] {
  const rows = rules.flatMap((rule) => (rule.alerts ?? []).map((alert) => ({ rule, alert })));
  const rank = ({ alert }: Row): number => (alert.state === 'firing' ? 0 : 1);
  return rows.sort((a, b) => rank(a) - rank(b) || Date.parse(a.alert.activeAt) - Date.parse(b.alert.activeAt));
}

/** Returns the cells of an alert: state, name, labels but for the name, time, value, summary. */
export function alertCells({ rule, alert }: Row): string[] {
  const { alertname: _, ...labels } = alert.labels;
  const value = Number(alert.value);
  return [
    alert.state === 'firing' ? 'fires' : 'pending',
    rule.name,
    format.tags(labels),
    format.moment(Date.parse(alert.activeAt)),
    Number.isFinite(value) ? format.sample(value) : alert.value,
    alert.annotations['summary'] ?? alert.annotations['description'] ?? '',
  ];
}

/** Returns a sentence about rules and alerts. */
export function alertsNote(rules: readonly api.Rule[], rows: readonly Row[]): string {
  const firing = rows.filter(({ alert }) => alert.state === 'firing').length;
  const pending = rows.length - firing;
  const found = [firing > 0 ? `${format.count(firing)} firing` : '', pending > 0 ? `${format.count(pending)} pending` : ''].filter((part) => part !== '');
  const all = `${format.count(rules.length)} rule${rules.length === 1 ? '' : 's'}`;
  const hidden = rows.length > MOST ? `; the first ${MOST} are shown` : '';
  return `${all}; ${found.length === 0 ? 'no alert' : `${found.join(', ')}${hidden}`}`;
}

/** Returns a sentence for each rule that fails. */
export const failures = (rules: readonly api.Rule[]): string[] =>
  rules
    .filter((rule) => rule.health === 'err')
    .map(({ name, type, lastError }) => `Rule ${name} fails, so ${type === 'recording' ? 'it stores nothing' : 'its alerts stay as they are'}: ${lastError}`);

/** Card with the alerts. It is empty while the server has no rules. */
export class AlertsCard {
  readonly root = h('div', { class: 'alerts' });
  private shown = '';
  private due = 0;

  /** Asks for the rules every ten seconds, and updates the card. */
  async show(signal?: AbortSignal): Promise<void> {
    const now = Date.now();
    if (now < this.due) return;
    this.due = now + POLL_MS;
    // A token that sees a part of the sources only may not read alerts.
    const rules = await api.alertRules(signal).catch(() => []);
    if (rules.length === 0) this.due = now + IDLE_MS;
    if (signal?.aborted) this.due = 0;
    else this.draw(rules);
  }

  private draw(rules: readonly api.Rule[]): void {
    const rows = activeAlerts(rules);
    const note = alertsNote(rules, rows);
    const failed = failures(rules);
    const lines = rows.slice(0, MOST).map((row) => ({ cells: alertCells(row), query: row.rule.query }));
    const text = JSON.stringify([lines, note, failed]);
    // Text in a rebuilt table cannot be selected.
    if (text === this.shown) return;
    this.shown = text;
    const body = lines.map(({ cells, query }) => h('tr', {}, ...cells.map((cell, at) => this.cell(cell, HEADS[at]!, query))));
    const card = h(
      'section',
      { class: 'card', 'aria-label': 'Alerts' },
      h('h2', {}, 'Alerts'),
      ...failed.map((sentence) => h('p', { class: 'notice' }, sentence)),
      lines.length > 0 && table('Alerts', HEADS, h('tbody', {}, ...body)),
      h('p', { class: 'foot' }, note),
    );
    put(this.root, rules.length > 0 && card);
  }

  private cell(text: string, head: string, promql: string): HTMLElement {
    if (head === 'State') return h('td', {}, h('span', { class: text === 'fires' ? 'badge fires' : 'badge' }, text));
    if (head === 'Alert') {
      const curve = write({ page: 'explorer', explorer: { ...emptyExplorer(), promql } });
      return h('td', {}, h('a', { href: curve, title: `Show ${promql}` }, text));
    }
    return h('td', { class: head === 'Value' ? 'number' : null }, text);
  }
}
