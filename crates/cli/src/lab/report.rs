//! `seiner lab report`: writes the page of a run, or compares two runs.

use crate::failure::Failure;
use anyhow::Context;
use clap::Args;
use seiner_lab::report::{self, compare};
use seiner_lab::results::Results;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Write the page of a run again, or compare two runs.
#[derive(Args)]
pub struct Report {
    /// Directory of a run.
    run: PathBuf,
    /// Directory of another run of the same experiment, for comparison.
    other: Option<PathBuf>,
    /// File of the comparison.
    #[arg(long, value_name = "FILE", default_value = "lab-compared.html")]
    to: PathBuf,
}

impl Report {
    /// Writes the page.
    pub fn run(self) -> Result<(), Failure> {
        let read = |path: &PathBuf| {
            Results::read(path).map_err(|error| Failure::Usage(format!("{error:#}")))
        };
        let results = read(&self.run)?;
        let Some(other) = self.other else {
            let directory = if self.run.is_dir() {
                self.run
            } else {
                self.run.parent().unwrap_or(&self.run).to_owned()
            };
            report::write(&results, &directory)?;
            writeln!(
                stdout(),
                "report: {}",
                directory.join("report.html").display()
            )?;
            return Ok(());
        };
        let other = read(&other)?;
        if compare::common(&results, &other).is_empty() {
            return Err(Failure::Usage(
                "the two runs have no cell in common: nothing can be compared".to_string(),
            ));
        }
        std::fs::write(&self.to, compare::page(&results, &other))
            .with_context(|| format!("{} was not written", self.to.display()))?;
        writeln!(stdout(), "report: {}", self.to.display())?;
        Ok(())
    }
}
