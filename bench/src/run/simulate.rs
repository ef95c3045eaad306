//! `simulate`: comparison of the whole engine with plain models, over millions of steps and with
//! seeds that no test uses.

use crate::progress;
use crate::report::{Check, OutputPaths, Relation, Report, Table};
use anyhow::Result;
use clap::Args;
use seiner_sim::{Campaign, Report as Done, Work, World};
use serde_json::json;
use std::time::{Duration, Instant};

/// Settings of `simulate`.
#[derive(Args)]
pub struct SimulateSettings {
    /// Number of steps; the bound is two million
    #[arg(long, default_value_t = 2_000_000)]
    steps: u64,
    /// Maximum duration in minutes, after which the run ends early
    #[arg(long, default_value_t = 15.0)]
    minutes: f64,
    /// First seed; the tests use other seeds
    #[arg(long, default_value_t = 1_000_000)]
    seed: u64,
}

/// Number of seeds between two checks of the clock.
const AT_ONCE: u64 = 64;
/// Number of steps of the bound.
const DEMANDED: f64 = 2e6;

const PURPOSE: &str = "Seeded runs of the whole engine on a disk and a clock in memory, with power cuts, kills, errors, \
    full disks and damage at operations of the disk that the seed chooses. Each answer is compared with a plain model. Each seed has three \
    stores: one that keeps everything, one that expires data, one that rolls old data up.";

/// Runs the benchmark.
pub fn run(settings: &SimulateSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("simulate", PURPOSE);
    let began = Instant::now();
    let limit = Duration::from_secs_f64(settings.minutes * 60.0);
    let bar = progress::bar(settings.steps, "steps");
    let (mut total, mut seeds, mut violations) = (Done::default(), 0, Vec::new());
    while total.steps < settings.steps && began.elapsed() < limit && violations.is_empty() {
        let first = settings.seed + seeds;
        let campaign = Campaign {
            seeds: first..first + AT_ONCE,
            wrap: World::plain,
            verbose: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            violations: 1,
        };
        let outcome = campaign.run(|_, _| {});
        seeds += outcome.runs;
        total.add(&outcome.total);
        violations.extend(outcome.violations);
        bar.set_position(total.steps);
    }
    bar.finish();
    report.notes.push(format!(
        "seeds {} to {}, {:.0} s: {total}",
        settings.seed,
        settings.seed + seeds - 1,
        began.elapsed().as_secs_f64()
    ));
    let notes = violations
        .iter()
        .map(|violation| format!("**{violation}**"));
    report.notes.extend(notes);
    report.tables.push(table(&total));
    let spared = |work: &&Work| total.works.of(**work).ends() == 0;
    let spared = Work::ALL.iter().filter(spared).count();
    report.checks = vec![
        Check::new(
            "steps taken",
            Some(total.steps as f64),
            Relation::AtLeast,
            Some(DEMANDED),
            "",
        ),
        Check::new(
            "samples lost, brought back or invented, budgets exceeded",
            Some(violations.len() as f64),
            Relation::AtMost,
            Some(0.0),
            "",
        ),
        Check::new(
            "kinds of work that no crash interrupted",
            Some(spared as f64),
            Relation::AtMost,
            Some(0.0),
            "",
        ),
    ];
    report.measured = json!({
        "seeds": seeds,
        "steps": total.steps,
        "rows": total.rows,
        "checks": total.checks,
        "crashes": total.crashes,
        "kills": total.kills,
        "errors": total.errors,
        "damages": total.damages,
        "rejections": total.rejections,
        "operations": total.operations,
        "violations": violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "works": Work::ALL.map(|work| {
            let count = total.works.of(work);
            json!({ "work": work.name(), "begun": count.begun, "ended": count.ends() })
        }),
    });
    report.finish(places)
}

fn table(total: &Done) -> Table {
    let mut table = Table::new(
        "Work of the engine at the end of a run",
        &["work", "begun", "interrupted"],
    );
    for work in Work::ALL {
        let count = total.works.of(work);
        let cells = [
            work.name().to_string(),
            count.begun.to_string(),
            count.ends().to_string(),
        ];
        table.rows.push(cells.to_vec());
    }
    table
}
