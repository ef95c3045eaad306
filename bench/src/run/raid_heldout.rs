//! `raid-heldout`: loads by which merging is judged, and on which it is never tuned.

use crate::raid::outcome::{self, Outcome};
use crate::raid::{cell, heldout};
use crate::report::{OutputPaths, Report};
use anyhow::Result;
use clap::Args;
use serde_json::json;

/// Settings of `raid-heldout`.
#[derive(Args)]
pub struct RaidHeldoutSettings {}

const PURPOSE: &str = "As `raid-matrix`, with loads by which merging is judged and on which it is never tuned (tuning and judging cells are \
    separate: `matrix.rs` and `practice.rs` against `heldout.rs`): odd depths, 20 and 24 KiB, jittered arrivals, streams mixed in \
    one area, holes, slower, faster and uneven members, other numbers of members and strips, different loads beside each other, clients that pause, short holds, slow clients, starts \
    within a stripe.";

/// Runs the benchmark.
pub fn run(_: &RaidHeldoutSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("raid-heldout", PURPOSE);
    report.notes.push(format!(
        "writes are held no longer than {} µs, with every strategy, unless the group has another time in its name",
        cell::LONGEST_HOLD / 1000
    ));
    let outcomes = outcome::measure(heldout::cells());
    report.tables.push(outcome::groups("by group", &outcomes));
    report.tables.push(outcome::worst_cells(&outcomes, 12));
    report.checks = outcome::checks("held-out cells", &outcomes, Some(0.95));
    report.measured = json!(outcomes.iter().map(Outcome::json).collect::<Vec<_>>());
    report.finish(places)
}
