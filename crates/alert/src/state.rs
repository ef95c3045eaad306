//! States of the alerts of a rule, by the rules of Prometheus.

use crate::rules::AlertRule;
use crate::template;
use seiner_promql::{Labels, METRIC_NAME};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Label with the name of the rule.
pub const ALERT_NAME: &str = "alertname";
/// Label with the phase, in the series of alerts.
const ALERT_STATE: &str = "alertstate";
/// Metric of alerts that are pending or firing: 1 for each.
pub const ALERTS: &str = "ALERTS";
/// Metric of the times since which the results of alerts exist, in seconds since 1970.
pub const SINCE: &str = "ALERTS_FOR_STATE";
/// Maximum number of alerts of a rule.
const MOST_ALERTS: usize = 10_000;
/// Time for which a resolved alert is kept and sent again, in ns.
const RESOLVED_NS: i64 = 15 * 60 * 1_000_000_000;
/// Time after which an alert that still fires is sent again, in ns.
const RESEND_NS: i64 = 60 * 1_000_000_000;
/// Maximum time without a server after which alerts go on, in ns, as in Prometheus.
pub const OUTAGE_NS: i64 = 60 * 60 * 1_000_000_000;
/// Minimum time after a start in which alerts may come back, in ns.
const RETURN_NS: i64 = 60 * 1_000_000_000;
/// Number of intervals after which a receiver may take an alert as resolved if it hears nothing.
const PATIENCE: i64 = 4;

/// Phase of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The expression has a result, but not for long enough.
    Pending,
    /// The alert fires.
    Firing,
    /// The alert fired until this time in ns.
    Resolved(i64),
}

impl Phase {
    /// Returns the word for the phase in the API of Prometheus.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Pending => "pending",
            Phase::Firing => "firing",
            Phase::Resolved(_) => "resolved",
        }
    }
}

/// Alert.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Labels.
    pub labels: Labels,
    /// Texts for people, by name.
    pub annotations: BTreeMap<String, String>,
    /// Last value of the expression.
    pub value: f64,
    /// Time since which the expression has a result, in ns.
    pub since: i64,
    /// Phase.
    pub phase: Phase,
    /// Time until which the alert counts as firing without further messages, in ns.
    pub valid_until: i64,
    /// Time since which the alert fires without a result, in ns.
    kept_since: Option<i64>,
    /// Time of the last message that was sent, in ns.
    sent: Option<i64>,
}

/// Alerts of a rule.
#[derive(Debug, Default)]
pub struct RuleState {
    alerts: HashMap<Labels, Alert>,
    /// Times in ns since which alerts of an earlier process have a result, until they come back.
    remembered: HashMap<Labels, i64>,
    /// Time in ns until which they may come back.
    remembered_until: i64,
}

/// Last stored sample of an alert.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Labels of the series without its name.
    pub labels: Labels,
    /// Time of the sample in ns.
    pub last: i64,
    /// Value: of [`SINCE`], the time since which the alert had a result, in seconds since 1970; NaN if it ended.
    pub value: f64,
}

impl Stored {
    /// Returns the time in ns since which the alert counts as having a result; `None` if it begins anew.
    fn since(&self, rule: &AlertRule, now: i64) -> Option<i64> {
        let outage = now.checked_sub(self.last)?;
        if self.value.is_nan() || !(0..=OUTAGE_NS).contains(&outage) {
            return None;
        }
        let since = ((self.value * 1e3).round() as i64).saturating_mul(1_000_000);
        let fired = self.last.saturating_sub(since) >= rule.for_ns;
        Some(if fired {
            since
        } else {
            since.saturating_add(outage).min(now)
        })
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl RuleState {
    /// Returns the alerts that are pending or firing, ordered by labels.
    pub fn active(&self) -> Vec<&Alert> {
        let mut active: Vec<&Alert> = self
            .alerts
            .values()
            .filter(|alert| !matches!(alert.phase, Phase::Resolved(_)))
            .collect();
        active.sort_by(|a, b| a.labels.iter().cmp(b.labels.iter()));
        active
    }

    /// Returns the series that describe the alerts that are pending or firing, as Prometheus stores them.
    pub fn series(&self) -> Vec<(Labels, f64)> {
        let mut series = Vec::new();
        for alert in self.active() {
            let mut phase = alert.labels.clone();
            phase.set(METRIC_NAME, ALERTS);
            phase.set(ALERT_STATE, alert.phase.word());
            series.push((phase, 1.0));
            let mut since = alert.labels.clone();
            since.set(METRIC_NAME, SINCE);
            series.push((since, (alert.since / 1_000_000) as f64 / 1e3));
        }
        series
    }

    /// Takes what an earlier process stored last of its alerts, before the first result: alerts that come back within a
    /// minute or two intervals go on. An alert that fired fires at once. For one that was pending, the time without a
    /// server does not count. After more than an hour, and for alerts that had ended, nothing is taken.
    pub fn remember(
        &mut self,
        rule: &AlertRule,
        now: i64,
        interval: Duration,
        stored: impl IntoIterator<Item = Stored>,
    ) {
        let window = RETURN_NS.max(nanoseconds(interval).saturating_mul(2));
        self.remembered_until = now.saturating_add(window);
        let known = stored.into_iter().filter_map(|stored| {
            let since = stored.since(rule, now)?;
            Some((stored.labels, since))
        });
        self.remembered = known.collect();
    }

    /// Takes the result of the rule's expression at a time.
    ///
    /// # Errors
    /// If two series of the result have the same labels as alerts, or there are too many. The states stay as they are.
    pub fn update(
        &mut self,
        rule: &AlertRule,
        now: i64,
        interval: Duration,
        result: &[(Labels, f64)],
    ) -> Result<(), String> {
        if result.len() > MOST_ALERTS {
            return Err(format!(
                "the expression has {} results; the maximum is {MOST_ALERTS}",
                result.len()
            ));
        }
        let mut found = HashMap::with_capacity(result.len());
        for (labels, value) in result {
            let alert = alert(rule, labels, *value, now);
            if let Some(other) = found.insert(alert.labels.clone(), alert) {
                return Err(format!(
                    "two results have the same labels as alerts of {:?}; the first is {:?}",
                    rule.name,
                    other.labels.iter().collect::<Vec<_>>()
                ));
            }
        }
        if now > self.remembered_until {
            self.remembered = HashMap::new();
        }
        for (labels, new) in found.iter_mut() {
            if let Some(since) = self.remembered.remove(labels) {
                new.since = since;
            }
            match self.alerts.get_mut(labels) {
                Some(known) if !matches!(known.phase, Phase::Resolved(_)) => {
                    known.value = new.value;
                    known.annotations.clone_from(&new.annotations);
                    known.kept_since = None;
                }
                _ => {
                    self.alerts.insert(labels.clone(), new.clone());
                }
            }
        }
        let valid_ns = nanoseconds(interval)
            .max(RESEND_NS)
            .saturating_mul(PATIENCE);
        self.alerts.retain(|labels, alert| {
            alert.advance(rule, now, found.contains_key(labels));
            alert.valid_until = now.saturating_add(valid_ns);
            alert.is_kept(now)
        });
        Ok(())
    }

    /// Returns the alerts whose messages are due: new ones, resolved ones, and those that were last sent a minute ago.
    pub fn due(&self, now: i64) -> Vec<&Alert> {
        self.alerts
            .values()
            .filter(|alert| alert.is_due(now))
            .collect()
    }

    /// Returns the alerts whose phase changed since their last message.
    pub fn changed(&self) -> Vec<&Alert> {
        let changed = |alert: &&Alert| match alert.phase {
            Phase::Pending => false,
            Phase::Firing => alert.sent.is_none(),
            Phase::Resolved(at) => alert.sent.is_some_and(|sent| sent < at),
        };
        self.alerts.values().filter(changed).collect()
    }

    /// Notes that the messages that were due at a time were sent.
    pub fn note_sent(&mut self, now: i64) {
        for alert in self.alerts.values_mut().filter(|alert| alert.is_due(now)) {
            alert.sent = Some(now);
        }
    }
}

fn alert(rule: &AlertRule, labels: &Labels, value: f64, now: i64) -> Alert {
    let mut own = labels.clone();
    own.remove(METRIC_NAME);
    for (name, text) in &rule.labels {
        own.set(name.as_str(), template::fill(text, labels, value));
    }
    own.set(ALERT_NAME, rule.name.as_str());
    let annotations = rule
        .annotations
        .iter()
        .map(|(name, text)| (name.clone(), template::fill(text, labels, value)));
    Alert {
        labels: own,
        annotations: annotations.collect(),
        value,
        since: now,
        phase: Phase::Pending,
        valid_until: now,
        kept_since: None,
        sent: None,
    }
}

impl Alert {
    /// Moves to the next phase. `has_result` is true if the expression has a result for the alert.
    fn advance(&mut self, rule: &AlertRule, now: i64, has_result: bool) {
        match (self.phase, has_result) {
            (Phase::Pending, true) if now.saturating_sub(self.since) >= rule.for_ns => {
                self.phase = Phase::Firing;
            }
            (Phase::Firing, false) => {
                let since = *self.kept_since.get_or_insert(now);
                if now.saturating_sub(since) >= rule.keep_ns {
                    self.phase = Phase::Resolved(now);
                }
            }
            (Phase::Pending, false) => self.phase = Phase::Resolved(i64::MIN),
            _ => {}
        }
    }

    /// Returns false if nobody needs to know of the alert any more.
    fn is_kept(&self, now: i64) -> bool {
        match self.phase {
            Phase::Resolved(at) => now.saturating_sub(at) < RESOLVED_NS,
            _ => true,
        }
    }

    fn is_due(&self, now: i64) -> bool {
        let is_old = |sent: i64| now.saturating_sub(sent) >= RESEND_NS;
        match self.phase {
            Phase::Pending => false,
            Phase::Firing => self.sent.is_none_or(is_old),
            // A receiver that never heard of the alert need not hear that it is over.
            Phase::Resolved(at) => self.sent.is_some_and(|sent| sent < at || is_old(sent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const INTERVAL: Duration = Duration::from_secs(15);

    fn rule(for_s: i64, keep_s: i64) -> AlertRule {
        AlertRule {
            name: "Hot".into(),
            expression: "temperature > 30".into(),
            for_ns: for_s * SECOND,
            keep_ns: keep_s * SECOND,
            labels: BTreeMap::from([("severity".into(), "page {{ $value }}".into())]),
            annotations: BTreeMap::from([(
                "text".into(),
                "{{ $labels.room }}: {{ $value }}".into(),
            )]),
        }
    }

    fn results(rooms: &[&str]) -> Vec<(Labels, f64)> {
        let result = |room: &&str| {
            let mut labels = Labels::new();
            labels.set(METRIC_NAME, "temperature");
            labels.set("room", *room);
            (labels, 31.0)
        };
        rooms.iter().map(result).collect()
    }

    fn phases(state: &RuleState) -> Vec<(String, Phase)> {
        let active = state.active().into_iter();
        active
            .map(|alert| (alert.labels.get("room").to_string(), alert.phase))
            .collect()
    }

    #[test]
    fn an_alert_is_pending_then_fires_and_is_resolved() {
        let rule = rule(30, 0);
        let mut state = RuleState::default();
        let at = |state: &mut RuleState, second: i64, rooms: &[&str]| {
            state
                .update(&rule, second * SECOND, INTERVAL, &results(rooms))
                .unwrap();
            phases(state)
        };
        assert_eq!(at(&mut state, 0, &["a"]), [("a".into(), Phase::Pending)]);
        assert!(state.due(0).is_empty());
        assert_eq!(
            at(&mut state, 15, &["a", "b"]),
            [("a".into(), Phase::Pending), ("b".into(), Phase::Pending)]
        );
        // The second room recovers before its time.
        assert_eq!(at(&mut state, 30, &["a"]), [("a".into(), Phase::Firing)]);
        let due = state.due(30 * SECOND);
        assert_eq!((due.len(), due[0].since), (1, 0));
        assert_eq!(due[0].labels.get("alertname"), "Hot");
        assert_eq!(due[0].labels.get("severity"), "page 31");
        assert_eq!(due[0].labels.get(METRIC_NAME), "");
        let text = ("text".into(), "a: 31".into());
        assert_eq!(due[0].annotations, BTreeMap::from([text]));
        assert_eq!(due[0].valid_until, (30 + 4 * 60) * SECOND);
        state.note_sent(30 * SECOND);
        assert!(state.due(45 * SECOND).is_empty() && state.changed().is_empty());
        assert_eq!(state.due(90 * SECOND).len(), 1, "sent again after a minute");
        assert_eq!(at(&mut state, 45, &[]), []);
        assert_eq!(
            state.due(45 * SECOND)[0].phase,
            Phase::Resolved(45 * SECOND)
        );
        assert_eq!(state.changed().len(), 1);
        // Regression: a resolved alert was sent twice if it was resolved and sent at one time.
        state.note_sent(45 * SECOND);
        assert!(state.changed().is_empty() && state.due(60 * SECOND).is_empty());
        // After a quarter of an hour it is forgotten.
        at(&mut state, 45 + 900, &[]);
        assert!(state.due(i64::MAX).is_empty());
        // Later it begins anew.
        assert_eq!(at(&mut state, 2000, &["a"]), [("a".into(), Phase::Pending)]);
    }

    #[test]
    fn an_alert_goes_on_firing_for_the_time_of_its_rule() {
        let rule = rule(0, 60);
        let mut state = RuleState::default();
        for (second, rooms, count) in [
            (0, 1, 1),
            (15, 0, 1),
            (60, 0, 1),
            (70, 1, 1),
            (80, 0, 1),
            (139, 0, 1),
            (140, 0, 0),
        ] {
            let rooms = &["a"][..rooms];
            state
                .update(&rule, second * SECOND, INTERVAL, &results(rooms))
                .unwrap();
            assert_eq!(state.active().len(), count, "at {second} s");
        }
    }

    #[test]
    fn alerts_go_on_after_a_restart() {
        let rule = rule(600, 0);
        let minute = 60 * SECOND;
        let now = 10_000 * minute;
        let mut before = RuleState::default();
        for (at, rooms) in [
            (-30, &["a"][..]),
            (-15, &["a", "b", "c"]),
            (-14, &["a", "b"]),
        ] {
            before
                .update(&rule, now + at * minute, INTERVAL, &results(rooms))
                .unwrap();
        }
        let series = before.series();
        let state = |series: &(Labels, f64)| series.0.get("alertstate").to_string();
        assert_eq!(
            series.iter().map(state).collect::<Vec<_>>(),
            ["firing", "", "pending", ""]
        );
        assert_eq!(series[0].0.get(METRIC_NAME), "ALERTS");
        assert_eq!(series[0].1, 1.0);
        let stored = |outage: i64| {
            let since = series
                .iter()
                .filter(|(labels, _)| labels.get(METRIC_NAME) == SINCE);
            let stored = since.map(move |(labels, value)| {
                let mut labels = labels.clone();
                labels.remove(METRIC_NAME);
                Stored {
                    labels,
                    last: now - outage,
                    value: *value,
                }
            });
            stored.collect::<Vec<_>>()
        };
        let start = |stored: Vec<Stored>, first: i64| {
            let mut state = RuleState::default();
            state.remember(&rule, now, INTERVAL, stored);
            state.update(&rule, now, INTERVAL, &[]).unwrap();
            state
                .update(&rule, now + first, INTERVAL, &results(&["a", "b", "c"]))
                .unwrap();
            let since = state
                .active()
                .into_iter()
                .map(|alert| (now - alert.since) / minute);
            let since: Vec<i64> = since.collect();
            let fires = phases(&state)
                .into_iter()
                .map(|(_, phase)| phase == Phase::Firing);
            (since, fires.collect::<Vec<bool>>())
        };
        // The outage of 14 minutes counts for the alert that fired, and not for the one that was pending.
        assert_eq!(
            start(stored(14 * minute), SECOND),
            (vec![30, 1, 0], vec![true, false, false])
        );
        // Samples of sensors come back a while after the start, but not much later.
        assert_eq!(start(stored(14 * minute), minute).1, [true, false, false]);
        assert_eq!(start(stored(14 * minute), minute + 1).1, [false; 3]);
        assert_eq!(start(stored(61 * minute), 0).1, [false; 3]);
        let ended = stored(14 * minute).into_iter().map(|stored| Stored {
            value: f64::NAN,
            ..stored
        });
        assert_eq!(start(ended.collect(), 0).1, [false; 3]);
        let of_the_future = stored(-minute);
        assert_eq!(start(of_the_future, 0).1, [false; 3]);
    }

    #[test]
    fn ambiguous_and_excessive_results_are_errors_and_change_nothing() {
        let mut state = RuleState::default();
        let rule = rule(0, 0);
        state.update(&rule, 0, INTERVAL, &results(&["a"])).unwrap();
        let mut twice = results(&["a", "a"]);
        twice[1].0.set(METRIC_NAME, "other");
        let error = state.update(&rule, SECOND, INTERVAL, &twice).unwrap_err();
        assert!(error.contains("the same labels"), "{error}");
        let many: Vec<String> = (0..=MOST_ALERTS).map(|room| room.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let error = state
            .update(&rule, SECOND, INTERVAL, &results(&many))
            .unwrap_err();
        assert!(error.contains("10001 results"), "{error}");
        assert_eq!(phases(&state), [("a".into(), Phase::Firing)]);
    }
}
