import { expect, test } from 'vitest';
import type { ActiveAlert, Rule } from '../../src/api';
import { activeAlerts, alertCells, alertsNote, failures } from '../../src/overview/alerts';

const alert = (state: ActiveAlert['state'], activeAt: string, value = '31.5'): ActiveAlert => ({
  labels: { alertname: 'RoomIsHot', room: activeAt.slice(8, 10), severity: 'page' },
  annotations: {},
  state,
  activeAt,
  value,
});
const rule = (...alerts: ActiveAlert[]): Rule => ({ type: 'alerting', name: 'RoomIsHot', query: 'climate > 30', health: 'ok', lastError: '', alerts });

test('alerts that fire come first, then the earliest', () => {
  const rules = [rule(alert('pending', '2026-11-01T00:00:00Z'), alert('firing', '2026-11-03T00:00:00Z')), rule(alert('firing', '2026-11-02T00:00:00Z'))];
  expect(activeAlerts(rules).map(({ alert }) => alert.labels['room'])).toEqual(['02', '03', '01']);
});

test('an alert shows its labels without its name', () => {
  const [state, name, labels, , value, summary] = alertCells(activeAlerts([rule(alert('firing', '2026-11-02T00:00:00Z'))])[0]!);
  expect([state, name, value, summary]).toEqual(['fires', 'RoomIsHot', '31.5', '']);
  expect(labels).toContain('room');
  expect(labels).not.toContain('alertname');
  expect(alertCells(activeAlerts([rule(alert('firing', '2026-11-02T00:00:00Z', '+Inf'))])[0]!)[4]).toBe('+Inf');
});

test('a sentence counts rules and alerts', () => {
  expect(alertsNote([rule()], [])).toBe('1 rule; no alert');
  const many = [rule(...Array.from({ length: 60 }, () => alert('pending', '2026-11-01T00:00:00Z'))), rule()];
  expect(alertsNote(many, activeAlerts(many))).toBe('2 rules; 60 pending; the first 50 are shown');
});

test('a rule that fails states the reason', () => {
  expect(failures([rule(), { ...rule(), health: 'err', lastError: 'too much memory' }])).toEqual(['Rule RoomIsHot fails, so its alerts stay as they are: too much memory']);
  const recording: Rule = { type: 'recording', name: 'a:mean', query: 'avg(a)', health: 'err', lastError: 'the disk is full' };
  expect(failures([recording])).toEqual(['Rule a:mean fails, so it stores nothing: the disk is full']);
  expect(activeAlerts([recording])).toEqual([]);
});
