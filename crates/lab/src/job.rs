//! Description of a run: experiment, settings and seed. It is saved beside the results, so that the
//! run can be repeated and continued.

use crate::align::Align;
use crate::disk::Disk;
use crate::error::Result;
use crate::files::Files;
use crate::guest::Needs;
use crate::merge::Merge;
use crate::place::Place;
use crate::report::figure::Figure;
use crate::results::{Backend, Cell, Missing, Results, Settings};
use crate::runner::Bench;
use crate::trace::Trace;
use crate::write::Write;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Size of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Seconds. Shows that the experiment runs; its figures mean nothing.
    Toy,
    /// Minutes, and a few GiB at most.
    #[default]
    Safe,
    /// Grid of the papers: hours.
    Full,
}

/// Description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Seed of all pseudo-random numbers.
    pub seed: u64,
    /// Size of the experiment.
    pub profile: Profile,
    /// Experiment and its settings.
    #[serde(flatten)]
    pub work: Work,
}

/// An experiment with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "experiment", content = "settings")]
pub enum Work {
    /// Profile of a disk.
    Disk(Disk),
    /// Writing for very many sensors, by several stores.
    Write(Write),
    /// Operations on files, by file system.
    Files(Files),
    /// Aligned against unaligned partitions, by file system.
    Align(Align),
    /// Bytes that merging writes.
    Merge(Merge),
    /// Block operations of a command.
    Trace(Trace),
}

/// One cell to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Name of the cell.
    pub name: String,
    /// Settings of the cell.
    pub settings: Settings,
    /// Expected duration, s.
    pub estimate_s: f64,
}

/// Running experiment. Owns the resources of the experiment; dropping the session removes them.
pub trait Session {
    /// Measures one cell. The runner fills in name, settings and time.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted), or the error of the operation that
    /// failed.
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell>;
}

/// Cells that an experiment can and cannot measure on this machine.
pub struct Plan {
    /// Cells to measure, in this order.
    pub tasks: Vec<Task>,
    /// Requested cells that cannot be measured here.
    pub missing: Vec<Missing>,
    /// Method of measurement.
    pub backend: Backend,
    /// Disk under test.
    pub place: Option<Place>,
}

impl Plan {
    /// Returns this plan with all estimates multiplied by [`Backend::pace`].
    pub fn paced(mut self) -> Plan {
        for task in &mut self.tasks {
            task.estimate_s *= self.backend.pace();
        }
        self
    }
}

/// Operations that all experiments share.
pub trait Experiment {
    /// Checks the settings and the machine. Creates nothing.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if a request cannot be carried out at all.
    fn plan(&self, job: &Job) -> Result<Plan>;

    /// Creates the resources that all cells share.
    ///
    /// # Errors
    /// A resource cannot be created, or the user stopped the run.
    fn open(&self, job: &Job, bench: &Bench) -> Result<Box<dyn Session>>;

    /// Returns the requirements for running in a guest; `None` if the experiment cannot run there.
    fn guest_needs(&self) -> Option<Needs> {
        None
    }

    /// Returns the figures of a report.
    fn figures(&self, results: &Results) -> Vec<Figure>;

    /// Returns sentences that summarize the results and state their limits.
    fn remarks(&self, results: &Results) -> Vec<String>;
}

impl Work {
    /// Returns the name of the experiment on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Disk(_) => "disk",
            Work::Write(_) => "write",
            Work::Files(_) => "files",
            Work::Align(_) => "align",
            Work::Merge(_) => "merge",
            Work::Trace(_) => "trace",
        }
    }

    /// Returns the experiment.
    pub fn experiment(&self) -> &dyn Experiment {
        match self {
            Work::Disk(disk) => disk,
            Work::Write(write) => write,
            Work::Files(files) => files,
            Work::Align(align) => align,
            Work::Merge(merge) => merge,
            Work::Trace(trace) => trace,
        }
    }
}

impl Job {
    /// Reads a description: JSON if the file name ends in `.json`, otherwise TOML.
    ///
    /// # Errors
    /// The file cannot be read or is not a description. The error names the position of the
    /// mistake.
    pub fn read(path: &Path) -> anyhow::Result<Job> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} was not read", path.display()))?;
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let job = if is_json {
            serde_json::from_str(&text).map_err(anyhow::Error::from)
        } else {
            toml::from_str(&text).map_err(anyhow::Error::from)
        };
        job.with_context(|| format!("{} describes no run", path.display()))
    }

    /// Returns the description as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("settings are plain values with texts as keys")
    }
}
