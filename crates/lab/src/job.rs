//! Description of a run: experiment, settings and seed. The description is saved beside the results,
//! so that the run can be repeated and continued.

use crate::align::Align;
use crate::bench::Bench;
use crate::disk::Disk;
use crate::error::Result;
use crate::experiment::{Experiment, ExperimentPlan, Profile, Session};
use crate::files::Files;
use crate::merge::Merge;
use crate::trace::Trace;
use crate::write::Write;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::Path;

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

    /// Returns the same work for a guest, where `directory` replaces the directories of this machine.
    pub fn inside(&self, directory: &Path) -> Work {
        match self {
            Work::Write(write) => Work::Write(write.inside(directory)),
            Work::Files(files) => Work::Files(files.inside(directory)),
            Work::Align(align) => Work::Align(align.inside(directory)),
            other => other.clone(),
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

    /// Checks the settings and the machine, and lists the cells. The estimates are those of the
    /// run's backend. Creates nothing.
    ///
    /// # Errors
    /// [`Error::Rejected`](crate::Error::Rejected) if a request cannot be carried out at all.
    pub fn plan(&self) -> Result<ExperimentPlan> {
        Ok(self.work.experiment().plan(self.profile)?.paced())
    }

    /// Creates the resources that all cells share.
    ///
    /// # Errors
    /// A resource cannot be created, or the user stopped the run.
    pub fn open(&self, bench: &Bench) -> Result<Box<dyn Session>> {
        self.work.experiment().open(self.seed, bench)
    }

    /// Returns the description as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("settings are plain values with texts as keys")
    }
}
