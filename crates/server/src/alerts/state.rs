//! Rules with their states: for the evaluation, `/metrics` and the API of Prometheus.

use crate::file_version::FileVersion;
use crate::known_series::{KnownSeries, NameMemory};
use crate::metric_text::{labelled, labelled_counters};
use crate::settings::AlertSettings;
use anyhow::{Context, Result};
use prometheus_client::encoding::DescriptorEncoder;
use seiner_alert::{Group, Phase, Rule, RuleState};
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

/// Groups of rules with their states.
pub type Groups = Arc<[Arc<GroupState>]>;

/// State of alerts.
#[derive(Debug, Default)]
pub struct AlertState {
    groups: RwLock<Groups>,
    /// Memory for the names of stored series.
    names: Arc<NameMemory>,
    /// Version of the file that was read last.
    seen: Mutex<FileVersion>,
    /// Signals new groups.
    pub changed: Notify,
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
    /// Time in ns by which the data of an evaluation are older than the evaluation.
    pub offset_ns: i64,
    /// Maximum number of results of a rule.
    pub limit: u64,
    /// Rules with their states.
    pub rules: Vec<RunningRule>,
}

impl GroupState {
    /// Returns the time in ns of the data that an evaluation reads, and of the samples that it stores.
    pub fn time_of_data(&self, evaluation: i64) -> i64 {
        evaluation.saturating_sub(self.offset_ns)
    }
}

/// Rule with its state.
#[derive(Debug)]
pub struct RunningRule {
    /// Rule.
    pub rule: Rule,
    /// State: the one of the same rule in an earlier version of the file, if there is one.
    state: Arc<RunningState>,
}

#[derive(Debug)]
struct RunningState {
    run: Mutex<Run>,
    known: Mutex<KnownSeries>,
}

/// Alerts of a rule, and its last evaluation.
#[derive(Debug, Default)]
pub struct Run {
    /// Alerts; none of a recording rule.
    pub state: RuleState,
    /// True if the alerts of an earlier process were read.
    pub is_resumed: bool,
    /// Time of the last evaluation in ns since 1970; `None` before the first one.
    pub time: Option<i64>,
    /// Seconds that it took.
    pub seconds: f64,
    /// Reason of its failure; empty if it succeeded.
    pub error: String,
    /// Reason why the states of alerts were not stored; empty if they were.
    pub unstored: String,
}

impl RunningRule {
    fn new(rule: Rule, names: &Arc<NameMemory>) -> RunningRule {
        let known = KnownSeries::new(names.clone());
        let state = RunningState {
            run: Mutex::default(),
            known: Mutex::new(known),
        };
        RunningRule {
            rule,
            state: Arc::new(state),
        }
    }

    /// Returns true if this is the other rule, with the same state.
    pub fn is(&self, other: &RunningRule) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Returns the state, locked.
    pub fn run(&self) -> MutexGuard<'_, Run> {
        let run = self.state.run.lock();
        run.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the series that the rule has in the store, locked. A store may keep the lock for long, so it is not the
    /// lock of [`RunningRule::run`], for which requests wait.
    pub fn known(&self) -> MutexGuard<'_, KnownSeries> {
        let known = self.state.known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }
}

impl AlertState {
    /// Reads the rules that the settings name. `names` is the memory for names of series that rules store.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a file of rules.
    pub fn read(settings: &AlertSettings, names: Arc<NameMemory>) -> Result<AlertState> {
        let Some(path) = &settings.rules else {
            return Ok(AlertState::default());
        };
        let seen = FileVersion::of(path);
        Ok(AlertState {
            groups: RwLock::new(groups(path, settings.interval, &[], &names)?),
            names,
            seen: Mutex::new(seen),
            ..AlertState::default()
        })
    }

    /// Returns the groups of rules.
    pub fn groups(&self) -> Groups {
        let groups = self.groups.read();
        groups.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again if it has changed. Rules that stay the same keep their alerts. A file that cannot be read
    /// leaves all rules as they are. Called about once a second, on a thread that may block.
    pub fn refresh(&self, settings: &AlertSettings) {
        let Some(path) = &settings.rules else {
            return;
        };
        let now = FileVersion::of(path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return;
        }
        *seen = now;
        match groups(path, settings.interval, &self.groups(), &self.names) {
            Ok(groups) => {
                let rules: usize = groups.iter().map(|group| group.rules.len()).sum();
                *self.groups.write().unwrap_or_else(PoisonError::into_inner) = groups;
                self.changed.notify_one();
                tracing::info!("the {rules} rules were read again");
            }
            Err(error) => tracing::error!("the rules stay as they are: {error:#}"),
        }
    }

    /// Encodes the metrics.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (mut pending, mut firing) = (0, 0);
        let groups = self.groups();
        for rule in groups.iter().flat_map(|group| &group.rules) {
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
            "Evaluations of rules",
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

/// Reads the groups of a file. Rules that are the same as before keep their states.
fn groups(
    path: &Path,
    usual: Duration,
    before: &[Arc<GroupState>],
    names: &Arc<NameMemory>,
) -> Result<Groups> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("alert_rules: {name} cannot be read"))?;
    let groups = seiner_alert::read(&text).with_context(|| format!("alert_rules: {name}"))?;
    let groups = groups.into_iter().map(|group| {
        let before = before.iter().find(|before| before.name == group.name);
        Arc::new(running(group, usual, before.map(|before| &**before), names))
    });
    Ok(groups.collect())
}

fn running(
    group: Group,
    usual: Duration,
    before: Option<&GroupState>,
    names: &Arc<NameMemory>,
) -> GroupState {
    let interval = group
        .interval_ns
        .map(|ns| Duration::from_nanos(ns.max(1) as u64));
    let rules = group.rules.into_iter().map(|rule| {
        let mut known = before.iter().flat_map(|before| &before.rules);
        match known.find(|known| known.rule == rule) {
            Some(known) => RunningRule {
                rule,
                state: known.state.clone(),
            },
            None => RunningRule::new(rule, names),
        }
    });
    GroupState {
        name: group.name,
        interval: interval.unwrap_or(usual),
        offset_ns: group.offset_ns,
        limit: group.limit.unwrap_or(u64::MAX),
        rules: rules.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str =
        "groups: [{name: g, rules: [{alert: A, expr: a > 1}, {alert: B, expr: b > 1}]}]";
    const SECOND: &str =
        "groups: [{name: g, rules: [{alert: B, expr: b > 2}, {alert: A, expr: a > 1}]}]";

    #[test]
    fn changed_files_are_read_and_unchanged_rules_keep_their_states() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        std::fs::write(&path, FIRST).unwrap();
        let settings = AlertSettings {
            rules: Some(path.clone()),
            ..AlertSettings::default()
        };
        let state = AlertState::read(&settings, Arc::default()).unwrap();
        for rule in &state.groups()[0].rules {
            rule.run().seconds = 7.0;
        }
        let names = || {
            let groups = state.groups();
            let rules = groups.iter().flat_map(|group| &group.rules);
            rules
                .map(|rule| (rule.rule.name().to_string(), rule.run().seconds))
                .collect::<Vec<_>>()
        };
        let first = [("A".to_string(), 7.0), ("B".to_string(), 7.0)];
        state.refresh(&settings);
        assert_eq!(names(), first);
        // A file that is wrong or missing changes nothing.
        std::fs::write(&path, "groups: [{name: g, rules: 1}]").unwrap();
        state.refresh(&settings);
        assert_eq!(names(), first);
        std::fs::remove_file(&path).unwrap();
        state.refresh(&settings);
        assert_eq!(names(), first);
        std::fs::write(&path, SECOND).unwrap();
        state.refresh(&settings);
        assert_eq!(names(), [("B".to_string(), 0.0), ("A".to_string(), 7.0)]);
    }
}
