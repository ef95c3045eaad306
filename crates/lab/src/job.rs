//! The description of a run: which experiment, with what settings, from which seed. Saved beside the
//! results, so that the run can be repeated and continued.

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

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Seconds: proves that the experiment runs; its figures mean nothing.
    Toy,
    /// Minutes, and a few GiB at most.
    #[default]
    Safe,
    /// What the papers ran: hours.
    Full,
}

/// The description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What all randomness comes from.
    pub seed: u64,
    /// How much is run.
    pub profile: Profile,
    /// What is run.
    #[serde(flatten)]
    pub work: Work,
}

/// An experiment with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "experiment", content = "settings")]
pub enum Work {
    /// A profile of a disk.
    Disk(Disk),
    /// Very many sensors written, by several stores.
    Write(Write),
    /// Operations on files, by file system.
    Files(Files),
    /// Aligned against unaligned, by file system.
    Align(Align),
    /// What merging writes.
    Merge(Merge),
    /// Block operations of a command.
    Trace(Trace),
}

/// A piece of a run: one cell of its results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The name of the cell.
    pub name: String,
    /// Its settings.
    pub settings: Settings,
    /// How long it should take, s.
    pub estimate_s: f64,
}

/// An experiment that is being run: what it created lives as long as it.
pub trait Session {
    /// Measures one cell. The runner fills in name, settings and time.
    ///
    /// # Errors
    /// When it was interrupted or something failed.
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell>;
}

/// What an experiment can do on this machine.
pub struct Plan {
    /// The cells to measure, in this order.
    pub tasks: Vec<Task>,
    /// Those that were asked for and cannot be measured here.
    pub missing: Vec<Missing>,
    /// By what means.
    pub backend: Backend,
    /// The disk under test.
    pub place: Option<Place>,
}

impl Plan {
    /// The same with estimates for its backend, where they were made for this computer.
    pub fn paced(mut self) -> Plan {
        for task in &mut self.tasks {
            task.estimate_s *= self.backend.pace();
        }
        self
    }
}

/// What every experiment can do.
pub trait Experiment {
    /// Looks at settings and machine before anything is created.
    ///
    /// # Errors
    /// A refusal, when something that was asked for cannot be done at all.
    fn plan(&self, job: &Job) -> Result<Plan>;

    /// Creates what all cells need.
    ///
    /// # Errors
    /// When that fails.
    fn open(&self, job: &Job, bench: &Bench) -> Result<Box<dyn Session>>;

    /// What a guest needs to run it, where it can be run in one.
    fn guest_needs(&self) -> Option<Needs> {
        None
    }

    /// The pictures of a report.
    fn figures(&self, results: &Results) -> Vec<Figure>;

    /// What the figures say, and what they cannot say.
    fn remarks(&self, results: &Results) -> Vec<String>;
}

impl Work {
    /// The name of the experiment, as on the command line.
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

    /// The experiment.
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
    /// Reads a description: TOML, or JSON where the name ends in it.
    ///
    /// # Errors
    /// When it is none; with the place of the fault.
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

    /// The description as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("settings are plain values with texts as keys")
    }
}
