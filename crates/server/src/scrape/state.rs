//! State of scraping for `/status`, `/metrics` and the API of Prometheus.

use super::target::Target;
use crate::known_series::NameMemory;
use crate::metric_text::{labelled, labelled_counters};
use crate::settings::ScrapeJob;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::{Value, json};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

/// State of scraping.
#[derive(Debug, Default)]
pub struct ScrapeState {
    /// Jobs, in the order of the settings.
    pub jobs: Vec<JobState>,
    targets: Mutex<Vec<Arc<TargetState>>>,
    /// Memory for the names of series.
    pub names: Arc<NameMemory>,
}

/// State of a job.
#[derive(Debug)]
pub struct JobState {
    /// Settings.
    pub job: Arc<ScrapeJob>,
    /// Scrapes.
    scrapes: AtomicU64,
    /// Failed scrapes.
    failures: AtomicU64,
    /// Reason why files with targets could not be read, if there is one.
    discovery_error: Mutex<Option<String>>,
}

/// State of a target.
#[derive(Debug)]
pub struct TargetState {
    /// Target.
    pub target: Target,
    report: Mutex<Report>,
}

/// Result of the last scrape of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Health of the target.
    pub health: Health,
    /// Reason of a failure, or of rejected samples; empty if there is none.
    pub error: String,
    /// Time of the scrape in ns since 1970; `None` before the first one.
    pub time: Option<i64>,
    /// Seconds that the scrape took.
    pub seconds: f64,
    /// Number of samples in the text.
    pub samples: u64,
}

/// Health of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// The target was not scraped yet.
    #[default]
    Unknown,
    /// The last scrape succeeded.
    Up,
    /// The last scrape failed.
    Down,
}

impl Health {
    /// Returns the word of Prometheus.
    pub fn word(self) -> &'static str {
        match self {
            Health::Unknown => "unknown",
            Health::Up => "up",
            Health::Down => "down",
        }
    }
}

impl TargetState {
    /// Creates the state of a target that was not scraped yet.
    pub fn new(target: Target) -> TargetState {
        TargetState {
            target,
            report: Mutex::default(),
        }
    }

    /// Returns the result of the last scrape.
    pub fn report(&self) -> Report {
        locked(&self.report).clone()
    }

    /// Notes the result of a scrape. Returns true if the reason of its failure is new.
    pub fn note(&self, report: Report) -> bool {
        let mut last = locked(&self.report);
        let is_new = report.error != last.error && !report.error.is_empty();
        *last = report;
        is_new
    }
}

impl JobState {
    /// Counts a scrape.
    pub fn count(&self, has_failed: bool) {
        self.scrapes.fetch_add(1, Relaxed);
        self.failures.fetch_add(u64::from(has_failed), Relaxed);
    }

    /// Notes why files could not be read, if that is so. Returns true if the reason is new.
    pub fn note_discovery(&self, error: Option<String>) -> bool {
        let mut last = locked(&self.discovery_error);
        let is_new = error.is_some() && *last != error;
        *last = error;
        is_new
    }
}

impl ScrapeState {
    /// Creates the state of jobs. `name_bytes` limits the memory for the names of series.
    pub fn new(jobs: &[ScrapeJob], name_bytes: usize) -> ScrapeState {
        let jobs = jobs.iter().map(|job| JobState {
            job: Arc::new(job.clone()),
            scrapes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            discovery_error: Mutex::default(),
        });
        ScrapeState {
            jobs: jobs.collect(),
            targets: Mutex::default(),
            names: Arc::new(NameMemory::new(name_bytes)),
        }
    }

    /// Returns the present targets.
    pub fn targets(&self) -> Vec<Arc<TargetState>> {
        locked(&self.targets).clone()
    }

    /// Replaces the targets.
    pub fn set_targets(&self, targets: Vec<Arc<TargetState>>) {
        *locked(&self.targets) = targets;
    }

    /// Returns the state of the job of a target.
    pub fn job_of(&self, target: &Target) -> Option<&JobState> {
        let mut jobs = self.jobs.iter();
        jobs.find(|job| job.job.name == target.job.name)
    }

    /// Returns the state for `/status`; null without jobs.
    pub fn status(&self) -> Value {
        if self.jobs.is_empty() {
            return Value::Null;
        }
        let counts = self.counts();
        let jobs = self.jobs.iter().zip(counts);
        let jobs: Vec<Value> = jobs
            .map(|(job, (targets, up, error))| {
                json!({
                    "job": job.job.name,
                    "targets": targets,
                    "up": up,
                    "scrapes": job.scrapes.load(Relaxed),
                    "failures": job.failures.load(Relaxed),
                    "last_error": error,
                    "discovery_error": *locked(&job.discovery_error),
                })
            })
            .collect();
        Value::Array(jobs)
    }

    /// Encodes the metrics.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.counts();
        let name = |job: &JobState| job.job.name.clone();
        let gauges = |of: fn(&(u64, u64, Option<String>)) -> u64| {
            let values = self.jobs.iter().zip(&counts);
            let values = values.map(|(job, counts)| (name(job), of(counts) as f64));
            values.collect::<Vec<(String, f64)>>()
        };
        for (name, help, values) in [
            (
                "scrape_targets",
                "Targets of scraping, by job",
                gauges(|counts| counts.0),
            ),
            (
                "scrape_targets_up",
                "Targets whose last scrape succeeded, by job",
                gauges(|counts| counts.1),
            ),
        ] {
            let values = values.iter().map(|(job, value)| (&**job, *value));
            labelled(encoder, name, help, "job", &values.collect::<Vec<_>>())?;
        }
        for (name, help, count) in [
            (
                "scrapes",
                "Scrapes, by job",
                (|job| &job.scrapes) as fn(&JobState) -> &AtomicU64,
            ),
            ("scrape_failures", "Scrapes that failed, by job", |job| {
                &job.failures
            }),
        ] {
            let values = self.jobs.iter();
            let values = values.map(|job| (&*job.job.name, count(job).load(Relaxed)));
            labelled_counters(encoder, name, help, "job", &values.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Returns, for each job, the number of targets, of those that are up, and an error of a target.
    fn counts(&self) -> Vec<(u64, u64, Option<String>)> {
        let mut counts = vec![(0, 0, None); self.jobs.len()];
        for state in self.targets() {
            let mut jobs = self.jobs.iter();
            let name = &state.target.job.name;
            let Some(at) = jobs.position(|job| job.job.name == *name) else {
                continue;
            };
            let report = state.report();
            let (targets, up, error) = &mut counts[at];
            *targets += 1;
            *up += u64::from(report.health == Health::Up);
            if error.is_none() && !report.error.is_empty() {
                *error = Some(format!("{}: {}", state.target.url(), report.error));
            }
        }
        counts
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread panics while it holds the state")
}
