//! Background threads: the jobs that they do for a store, and waiting for a job.

use crate::backpressure::force_space;
use crate::closing::trim_memory;
use crate::commit::{commit, write_journal};
use crate::core::Core;
use crate::error::Error;
use crate::jobs::{catch_up, step};
use crate::options::Durability;
use crate::scheduler::{Job, Work};

/// Waits until the thread of a job has done it. A store without threads does the job at once.
///
/// # Errors
/// Those of the job.
pub(crate) fn done(core: &Core, job: Job) -> Result<(), Error> {
    core.scheduler.request(job).unwrap_or_else(|| core.run(job))
}

impl Work for Core {
    fn durability(&self) -> Durability {
        Core::durability(self)
    }

    fn commit(&self) -> Result<(), Error> {
        commit(self)
    }

    fn step(&self) -> Result<bool, Error> {
        step(self)
    }

    fn run(&self, job: Job) -> Result<(), Error> {
        match job {
            Job::Journal => write_journal(self, false),
            Job::Seal => self.finish_sealing(),
            Job::Segments => catch_up(self),
            Job::Space => force_space(self),
        }
    }

    fn trim_memory(&self) {
        trim_memory(self);
    }
}
