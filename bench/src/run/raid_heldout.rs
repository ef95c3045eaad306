//! `raid-heldout`: loads that were never looked at while merging was tuned.

use crate::raid::outcome::{self, Outcome};
use crate::raid::{cell, heldout};
use crate::report::{Places, Report};
use anyhow::Result;
use clap::Args;
use serde_json::json;

/// What `raid-heldout` runs.
#[derive(Args)]
pub struct Settings {}

const PURPOSE: &str = "As `raid-matrix`, with loads that were never looked at while merging was tuned: odd depths, 12 KiB, jittered \
    arrivals, several streams mixed in one area, holes, slower and faster members.";

/// Runs it.
pub fn run(_: &Settings, places: &Places) -> Result<()> {
    let mut report = Report::new("raid-heldout", PURPOSE);
    report.notes.push(format!(
        "writes are held no longer than {} µs, whatever the strategy",
        cell::LONGEST_HOLD / 1000
    ));
    let outcomes = outcome::measure(heldout::cells());
    report.tables.push(outcome::groups(&outcomes));
    report.tables.push(outcome::worst_cells(&outcomes, 12));
    report.checks = outcome::checks(&outcomes, 0.95);
    report.measured = json!(outcomes.iter().map(Outcome::json).collect::<Vec<_>>());
    report.finish(places)
}
