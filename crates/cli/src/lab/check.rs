//! `seiner lab check`: describes a disk and its use.

use crate::failure::Failure;
use clap::Args;
use seiner_lab::check::{Severity, findings};
use seiner_lab::location::StorageLocation;
use seiner_lab::machine::Machine;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Describe a disk and its use, without root and without writing.
///
/// Lists sectors, alignment, scheduler, caches and mount options, with advice. The exit status is 0
/// even if the list contains warnings.
#[derive(Args)]
pub struct Check {
    /// Directory on the disk, or the device itself.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Creates a check of a path with output for people.
    pub fn of(path: PathBuf) -> Check {
        Check { path, json: false }
    }

    /// Examines the disk and prints the findings.
    pub fn run(self) -> Result<(), Failure> {
        let location = StorageLocation::find(&self.path)
            .map_err(|error| Failure::Usage(format!("{error:#}")))?;
        let findings = findings(&location, Machine::this().is_virtual);
        let mut out = stdout().lock();
        if self.json {
            let report = serde_json::json!({ "place": location, "findings": findings });
            writeln!(out, "{report:#}")?;
            return Ok(());
        }
        for finding in findings {
            let mark = match finding.severity {
                Severity::Good => "good",
                Severity::Note => "note",
                Severity::Warn => "WARN",
            };
            writeln!(out, "{mark}  {}: {}", finding.subject, finding.text)?;
        }
        Ok(())
    }
}
