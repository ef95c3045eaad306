//! `seiner import json`: imports JSON lines.

use super::flags::Flags;
use super::json_lines;
use super::records::Layout;
use super::run;
use crate::failure::Failure;
use crate::source;
use anyhow::Context;
use clap::Args;
use std::path::Path;

/// Import JSON lines: one object per line.
///
/// Each member of an object is the time, a tag, or a field, as a column of `seiner import csv`.
/// Members of nested objects are named by their path, such as `wifi.rssi`. Lines that are not
/// objects, and arrays, are rejected; the rest is stored. --dry-run shows the result without
/// storing.
///
/// Examples:
///
///   seiner import json --data ./seiner-data --tag-columns device readings.jsonl.gz
#[derive(Args)]
pub struct Json {
    #[command(flatten)]
    flags: Flags,
}

impl Json {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        run::run(&self.flags, &layout)
    }
}

/// Reads a file to find the names of all members.
fn layout(path: &Path) -> Result<(Layout, Vec<String>), Failure> {
    let source = source::open(path)?;
    let header = json_lines::header(source.reader)
        .with_context(|| format!("{} cannot be read", source.name))?;
    source.bar.finish_and_clear();
    if header.iter().any(|name| name == "metric.__name__") {
        return Err(Failure::Usage(format!(
            "{}: this is an export of VictoriaMetrics; use seiner import victoria",
            source.name
        )));
    }
    Ok((Layout::Json { header }, Vec::new()))
}
