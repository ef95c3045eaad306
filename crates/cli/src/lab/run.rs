//! `seiner lab run`: runs a saved job, or continues a run.

use super::{failure, measure, named};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::Interrupt;
use seiner_lab::job::Job;
use std::path::PathBuf;

/// Run a saved job, or continue the run in a directory.
#[derive(Args)]
pub struct Run {
    /// Job (TOML or JSON), or directory of a run to continue.
    job: PathBuf,
    /// Directory of the run, if a job is given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Run {
    /// Runs the job.
    pub fn run(self) -> Result<(), Failure> {
        let is_run = self.job.is_dir();
        let file = if is_run {
            self.job.join("job.toml")
        } else {
            self.job.clone()
        };
        let job = Job::read(&file).map_err(|error| Failure::Usage(format!("{error:#}")))?;
        let directory = match self.out {
            Some(out) => out,
            None if is_run => self.job,
            None => named(&job),
        };
        let interrupt = Interrupt::listen().map_err(failure)?;
        measure(&job, &directory, &interrupt, None).map(drop)
    }
}
