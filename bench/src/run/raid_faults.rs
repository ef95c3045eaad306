//! `raid-faults`: many seeded runs of the array under faults.

use crate::progress;
use crate::report::{Check, OutputPaths, Relation, Report, Table};
use anyhow::Result;
use clap::Args;
use seiner_raid::simulate::faults::{self, Canary, Severity, Summary};
use serde_json::json;

/// Settings of `raid-faults`.
#[derive(Args)]
pub struct RaidFaultsSettings {
    /// Number of runs, half of them with at most the losses that the level permits
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    first: u64,
}

const PURPOSE: &str = "The array's own code on simulated members, for all levels. Each run follows from a seed: members die and are rebuilt, lose or \
    tear unflushed writes, and have unreadable sectors; power is cut at any step. Every read is compared with the data \
    written. In half of the runs, losses stay within the redundancy of the level, and no request may fail. In the other half, \
    more may be lost and requests may fail, but no read may return wrong data.";

/// Runs the benchmark.
pub fn run(settings: &RaidFaultsSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("raid-faults", PURPOSE);
    let half = settings.runs / 2;
    let mut table = Table::new(
        "Events",
        &[
            "losses",
            "runs",
            "requests",
            "failed",
            "members died",
            "rebuilt",
            "sectors lost",
            "power cuts",
            "wrong",
        ],
    );
    let mut wrong = Vec::new();
    let bar = progress::bar(settings.runs, "runs");
    for (name, severity, runs) in [
        (
            "within the redundancy",
            Severity::Tolerated,
            settings.runs - half,
        ),
        ("more", Severity::Excessive, half),
    ] {
        let seeds = settings.first..settings.first + runs;
        let found = faults::run_all(seeds, severity, &|more| bar.inc(more));
        let mut row = vec![name.to_string(), runs.to_string()];
        match found {
            Ok(sum) => row.extend(figures(&sum)),
            Err(what) => {
                row.extend(std::iter::repeat_n(String::new(), 6));
                row.push("yes".into());
                report.notes.push(what.clone());
                wrong.push(what);
            }
        }
        table.rows.push(row);
    }
    bar.finish();
    report.tables.push(table);
    let count = |name: &str, value: u64, relation, bound: u64| {
        Check::new(name, Some(value as f64), relation, Some(bound as f64), "")
    };
    report.checks = vec![
        count("runs", settings.runs, Relation::AtLeast, 100_000),
        count(
            "kinds of runs with something wrong",
            wrong.len() as u64,
            Relation::AtMost,
            0,
        ),
    ];
    for (canary, name, severity, seeds) in Canary::ALL {
        let found = (0..seeds)
            .filter(|&seed| faults::run(seed, severity, Some(canary)).is_err())
            .count();
        let name = format!("deliberate fault found: {name}, seeds of {seeds}");
        report
            .checks
            .push(count(&name, found as u64, Relation::AtLeast, 1));
    }
    report.measured = json!({ "runs": settings.runs, "first": settings.first, "wrong": wrong });
    report.finish(places)
}

fn figures(sum: &Summary) -> Vec<String> {
    let figures = [
        sum.answered,
        sum.failed,
        sum.deaths,
        sum.rebuilt,
        sum.sectors,
        sum.cuts,
        0,
    ];
    figures.map(|figure| figure.to_string()).into()
}
