//! Rules with their states, for the evaluation, `/metrics` and the API of Prometheus.

use crate::metric_text::{labelled, labelled_counters};
use crate::settings::AlertSettings;
use anyhow::{Context, Result};
use prometheus_client::encoding::DescriptorEncoder;
use seiner_alert::{Group, Phase, Rule, RuleState};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// State of alerts.
#[derive(Debug, Default)]
pub struct AlertState {
    /// Groups of rules.
    pub groups: Vec<GroupState>,
    /// Number of evaluations of rules.
    pub evaluations: AtomicU64,
    /// Number of failed evaluations.
    pub failures: AtomicU64,
    /// Number of alerts in messages that a receiver took.
    pub sent: AtomicU64,
    /// Number of alerts in messages that failed.
    pub unsent: AtomicU64,
}

/// State of a group.
#[derive(Debug)]
pub struct GroupState {
    /// Name of the group.
    pub name: String,
    /// Time between two evaluations.
    pub interval: Duration,
    /// Rules with their states.
    pub rules: Vec<RunningRule>,
}

/// Rule with its state.
#[derive(Debug)]
pub struct RunningRule {
    /// Rule.
    pub rule: Rule,
    run: Mutex<Run>,
}

/// Alerts of a rule, and its last evaluation.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Alerts.
    pub state: RuleState,
    /// Time of the last evaluation in ns since 1970; `None` before the first one.
    pub time: Option<i64>,
    /// Seconds that it took.
    pub seconds: f64,
    /// Reason of its failure; empty if it succeeded.
    pub error: String,
}

impl RunningRule {
    /// Returns the state, locked.
    pub fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AlertState {
    /// Reads the rules that the settings name.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a file of rules.
    pub fn read(settings: &AlertSettings) -> Result<AlertState> {
        let Some(path) = &settings.rules else {
            return Ok(AlertState::default());
        };
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("alert_rules: {name} cannot be read"))?;
        let groups = seiner_alert::read(&text).with_context(|| format!("alert_rules: {name}"))?;
        let groups = groups
            .into_iter()
            .map(|group| running(group, settings.interval));
        Ok(AlertState {
            groups: groups.collect(),
            ..AlertState::default()
        })
    }

    /// Encodes the metrics.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (mut pending, mut firing) = (0, 0);
        for rule in self.groups.iter().flat_map(|group| &group.rules) {
            for alert in rule.run().state.active() {
                match alert.phase {
                    Phase::Pending => pending += 1,
                    _ => firing += 1,
                }
            }
        }
        labelled(
            encoder,
            "alerts",
            "Alerts",
            "state",
            &[
                ("pending", f64::from(pending)),
                ("firing", f64::from(firing)),
            ],
        )?;
        let succeeded = |all: &AtomicU64, failed: u64| all.load(Relaxed).saturating_sub(failed);
        let failures = self.failures.load(Relaxed);
        labelled_counters(
            encoder,
            "alert_evaluations",
            "Evaluations of rules of alerts",
            "result",
            &[
                ("ok", succeeded(&self.evaluations, failures)),
                ("failed", failures),
            ],
        )?;
        labelled_counters(
            encoder,
            "alert_messages",
            "Alerts in messages to Alertmanagers and to the command",
            "result",
            &[
                ("sent", self.sent.load(Relaxed)),
                ("failed", self.unsent.load(Relaxed)),
            ],
        )
    }
}

fn running(group: Group, usual: Duration) -> GroupState {
    let interval = group
        .interval_ns
        .map(|ns| Duration::from_nanos(ns.max(1) as u64));
    GroupState {
        name: group.name,
        interval: interval.unwrap_or(usual),
        rules: group
            .rules
            .into_iter()
            .map(|rule| RunningRule {
                rule,
                run: Mutex::default(),
            })
            .collect(),
    }
}
