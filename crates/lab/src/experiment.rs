//! Interface of the experiments: settings, cells, figures and remarks.

use crate::backend::Backend;
use crate::bench::Bench;
use crate::cell::{Cell, CellSettings, Missing};
use crate::error::Result;
use crate::location::StorageLocation;
use crate::machine::Machine;
use seiner_chart::Figure;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Size of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Takes seconds. Only shows that the experiment runs; its figures mean nothing.
    Toy,
    /// Takes minutes, and a few GiB at most.
    #[default]
    Safe,
    /// Takes hours: the grid of the papers.
    Full,
}

/// One cell to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Name of the cell.
    pub name: String,
    /// Settings of the cell.
    pub settings: CellSettings,
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
pub struct ExperimentPlan {
    /// Cells to measure, in this order.
    pub tasks: Vec<Task>,
    /// Requested cells that cannot be measured here.
    pub missing: Vec<Missing>,
    /// Method of measurement.
    pub backend: Backend,
    /// Disk under test.
    pub location: Option<StorageLocation>,
}

impl ExperimentPlan {
    /// Returns the expected duration of all cells, s.
    pub fn estimate_s(&self) -> f64 {
        self.tasks.iter().map(|task| task.estimate_s).sum()
    }

    /// Returns this plan with all estimates multiplied by [`Backend::pace`].
    pub fn paced(mut self) -> ExperimentPlan {
        for task in &mut self.tasks {
            task.estimate_s *= self.backend.pace();
        }
        self
    }
}

/// Requirements of an experiment for its guest.
pub struct GuestNeeds {
    /// Directory in which the archive is made.
    pub directory: PathBuf,
    /// Bytes of the guest's disk.
    pub medium_bytes: u64,
    /// Bytes of memory in addition to the disk and the base of every guest.
    pub memory_bytes: u64,
}

/// Measurements of a run, from which an experiment makes figures and remarks.
#[derive(Clone, Copy)]
pub struct Measurements<'a> {
    /// Method of measurement.
    pub backend: Backend,
    /// Machine that measured.
    pub machine: &'a Machine,
    /// Disk under test, if there is one.
    pub location: Option<&'a StorageLocation>,
    /// Measured cells, in the order of measurement.
    pub cells: &'a [Cell],
    /// Cells that were not measured, in the order of the settings.
    pub missing: &'a [Missing],
}

/// Operations that all experiments share.
pub trait Experiment {
    /// Checks the settings and the machine. Creates nothing.
    ///
    /// # Errors
    /// [`Error::Rejected`](crate::Error::Rejected) if a request cannot be carried out at all.
    fn plan(&self, profile: Profile) -> Result<ExperimentPlan>;

    /// Creates the resources that all cells share. `seed` determines all pseudo-random numbers.
    ///
    /// # Errors
    /// A resource cannot be created, or the user stopped the run.
    fn open(&self, seed: u64, bench: &Bench) -> Result<Box<dyn Session>>;

    /// Returns the requirements for running in a guest; `None` if the experiment cannot run there.
    fn guest_needs(&self) -> Option<GuestNeeds> {
        None
    }

    /// Returns the figures of a report.
    fn figures(&self, results: &Measurements<'_>) -> Vec<Figure>;

    /// Returns sentences that summarize the results and state their limits.
    fn remarks(&self, results: &Measurements<'_>) -> Vec<String>;
}
