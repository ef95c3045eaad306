//! `raid-heldout`: held-out loads. Merging is judged by these loads and never tuned on them.

use crate::raid::outcome::{self, Outcome};
use crate::raid::{cell, heldout};
use crate::report::{OutputPaths, Report};
use anyhow::Result;
use clap::Args;
use serde_json::json;

/// Settings of `raid-heldout`.
#[derive(Args)]
pub struct RaidHeldoutSettings {}

const PURPOSE: &str = "As `raid-matrix`, with held-out loads: merging is judged by them and never tuned on them (cells for tuning are in \
    `matrix.rs` and `practice.rs`, held-out cells in `heldout.rs`). The loads: odd depths, 20 and 24 KiB, jittered arrivals, streams mixed in \
    one area, holes, slower, faster and uneven members, other numbers of members and strips, different loads beside each other, clients that pause, short holds, slow clients, starts \
    within a stripe.";

/// Runs the benchmark.
pub fn run(_: &RaidHeldoutSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("raid-heldout", PURPOSE);
    report.notes.push(format!(
        "every strategy holds writes for at most {} µs, unless the name of the group states another time",
        cell::LONGEST_HOLD / 1000
    ));
    let outcomes = outcome::measure(heldout::cells());
    report.tables.push(outcome::groups("by group", &outcomes));
    report.tables.push(outcome::worst_cells(&outcomes, 12));
    report.checks = outcome::checks("held-out cells", &outcomes, Some(0.95));
    report.measured = json!(outcomes.iter().map(Outcome::json).collect::<Vec<_>>());
    report.finish(places)
}
