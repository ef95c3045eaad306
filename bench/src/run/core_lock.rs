//! `core-lock`: hold times of the engine's lock with a million sources, and the speed of one heavy
//! query on one core and on two.
//!
//! Each part runs in its own process.

mod phases;
mod query;
mod sources;

use crate::process::in_own_process;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use anyhow::{Context, Result, ensure};
use clap::Args;
use query::HeavyQuery;
use serde_json::json;
use sources::{CASES, ManySources};

/// Settings of `core-lock`.
#[derive(Args)]
pub struct CoreLockSettings {
    /// Parts to run, separated by commas: lock, query; all if none is given
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Share of the sources and samples, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Run one case in this process and print its measurements (used by the benchmark itself)
    #[arg(long, hide = true)]
    case: Option<String>,
}

/// Name of the case with one heavy query.
const QUERY: &str = "query";
/// Maximum memory of one heavy query, bytes.
const QUERY_SHARE: u64 = 64 << 20;
/// Bound of the 99.99th percentile of hold times, ms.
const LONGEST_HOLD_MS: f64 = 1.0;
/// Minimum speed of a heavy query on two cores, relative to one.
const SPEED_UP: f64 = 1.7;

const PURPOSE: &str = "Hold times of the engine's lock with a million sources, in batches of 1,000 rows: \
    during registration (first sample of each source), appends, flush, query and close. Then one heavy \
    query of a source with ten fields, on one core and on two, best of three.";

/// Runs the benchmark.
pub fn run(settings: &CoreLockSettings, places: &OutputPaths) -> Result<()> {
    if let Some(name) = &settings.case {
        let text = match name.as_str() {
            QUERY => serde_json::to_string(&query::measure(settings.scale, &places.output)?)?,
            name => {
                let case = CASES.iter().find(|case| case.name == name);
                let case = case.with_context(|| format!("unknown case {name}"))?;
                serde_json::to_string(&sources::measure(
                    &case.scaled(settings.scale),
                    &places.output,
                )?)?
            }
        };
        println!("{text}");
        return Ok(());
    }
    std::fs::create_dir_all(&places.output)?;
    let names = CASES.iter().map(|case| case.name).chain([QUERY]);
    for name in &settings.only {
        ensure!(
            names.clone().any(|known| known == name),
            "unknown case {name}"
        );
    }
    let is_wanted =
        |name: &str| settings.only.is_empty() || settings.only.iter().any(|one| one == name);
    let case_of = |name| ["core-lock", "--case", name];
    let mut measured: Vec<ManySources> = Vec::new();
    for case in CASES.iter().filter(|case| is_wanted(case.name)) {
        eprintln!(
            "{}: {} sources",
            case.name,
            case.scaled(settings.scale).sources
        );
        measured.push(in_own_process(
            &places.output,
            case_of(case.name),
            settings.scale,
        )?);
    }
    let mut query: Option<HeavyQuery> = None;
    if is_wanted(QUERY) {
        eprintln!("{QUERY}");
        query = Some(in_own_process(
            &places.output,
            case_of(QUERY),
            settings.scale,
        )?);
    }
    let mut report = Report::new("core-lock", PURPOSE);
    report.notes.push(format!(
        "scale {}; durability: interval, 100 ms",
        settings.scale
    ));
    report.notes.extend(measured.iter().map(|one| {
        format!(
            "{}: longest hold of the lock {:.2} ms, taken at {}; {} of {} samples are found",
            one.case, one.longest_hold_ms, one.longest_hold_at, one.counted, one.samples
        )
    }));
    report.tables.push(table(&measured));
    report.checks = checks(&measured, query.as_ref());
    report.measured = json!({ "scale": settings.scale, "cases": measured, "query": query });
    report.finish(places)
}

fn table(measured: &[ManySources]) -> Table {
    let mut table = Table::new(
        "Phases",
        &[
            "case",
            "phase",
            "s",
            "RSS MiB",
            "setting MiB",
            "wait p50 ms",
            "p99",
            "p99.9",
            "longest",
            "hold p99.99 ms",
        ],
    );
    for one in measured {
        for phase in &one.phases {
            let wait = |at: usize| cell(phase.waits_ms.map(|waits| waits[at]));
            table.rows.push(vec![
                one.case.clone(),
                phase.name.clone(),
                cell(Some(phase.wall_s)),
                (phase.peak_rss >> 20).to_string(),
                (one.memory >> 20).to_string(),
                wait(0),
                wait(1),
                wait(2),
                wait(3),
                cell(Some(phase.holds_ms[2])),
            ]);
        }
    }
    table
}

fn checks(measured: &[ManySources], query: Option<&HeavyQuery>) -> Vec<Check> {
    let case = |name: &str| measured.iter().find(|one| one.case == name);
    let mut checks = Vec::new();
    for phase in ["append", "flush"] {
        let of = case("lock").and_then(|one| one.phases.iter().find(|of| of.name == phase));
        checks.push(Check::new(
            format!("a million sources, {phase}: 99.99 % of the holds of the lock"),
            of.map(|phase| phase.holds_ms[2]),
            Relation::AtMost,
            Some(LONGEST_HOLD_MS),
            "ms",
        ));
    }
    let lost: Option<u64> = (!measured.is_empty()).then(|| {
        measured
            .iter()
            .map(|one| one.samples.abs_diff(one.counted))
            .sum()
    });
    checks.push(Check::new(
        "samples that a query misses or returns twice",
        lost.map(|lost| lost as f64),
        Relation::AtMost,
        Some(0.0),
        "samples",
    ));
    checks.push(Check::new(
        "one heavy query, two cores against one",
        query.and_then(|query| Some(query.one_core_s / query.two_cores_s?)),
        Relation::AtLeast,
        Some(SPEED_UP),
        "times as fast",
    ));
    checks.push(Check::new(
        "one heavy query: memory that it adds",
        query.map(|query| (query.added_rss >> 20) as f64),
        Relation::AtMost,
        Some((QUERY_SHARE >> 20) as f64),
        "MiB",
    ));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_case_finds_all_its_samples_and_has_every_phase() {
        let output = tempfile::tempdir().unwrap();
        let case = CASES[0].scaled(0.002);
        assert_eq!((case.sources, case.memory), (2_000, 8 << 20));
        let measured = sources::measure(&case, output.path()).unwrap();
        assert_eq!(
            measured.samples,
            u64::from(case.sources * (case.samples + 1))
        );
        assert_eq!(measured.counted, measured.samples);
        let names: Vec<&str> = measured
            .phases
            .iter()
            .map(|phase| phase.name.as_str())
            .collect();
        let expected = [
            "register",
            "append",
            "flush",
            "query",
            "append more",
            "start",
            "close",
        ];
        assert_eq!(names, expected);
        let checks = checks(&[measured], None);
        assert!(checks[0].value.is_some() && checks.iter().any(|check| check.value.is_none()));
    }
}
