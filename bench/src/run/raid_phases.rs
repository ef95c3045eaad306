//! `raid-phases`: a changing load, and the delay until merging adapts to it.

use crate::raid::cell::{self, job, read, write};
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use anyhow::Result;
use clap::Args;
use seiner_raid::simulate::Address::{Random, Sequential};
use seiner_raid::simulate::{Load, Measured, Phase, Run, Sample, run as simulate};
use seiner_raid::{BLOCK_BYTES, Merging, Nanos};
use serde_json::json;

/// Settings of `raid-phases`.
#[derive(Args)]
pub struct RaidPhasesSettings {
    /// Simulated milliseconds per phase
    #[arg(long, default_value_t = 500)]
    phase_ms: u64,
}

const PURPOSE: &str = "The paper's changing load on the array of `raid-matrix`: sequential at depth 32, random at depth 64, sequential at depth \
    16, then 70 % reads and 30 % writes at depth 16. A strategy has adapted when it reaches nine tenths of its rate in the second half \
    of the phase, and keeps that rate for three intervals.";

const MILLISECOND: Nanos = 1_000_000;
/// Interval in which completed requests are counted, ns.
const SPAN: Nanos = MILLISECOND;

/// Runs the benchmark.
pub fn run(settings: &RaidPhasesSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("raid-phases", PURPOSE);
    let time = settings.phase_ms * MILLISECOND;
    let spans = (time / SPAN) as usize;
    let phases = phases(time);
    report.notes.push(format!(
        "{} ms a phase (30 s in the paper), counted every {} ms",
        settings.phase_ms,
        SPAN / MILLISECOND
    ));
    let runs: Vec<(Merging, Measured)> = Merging::ALL
        .into_iter()
        .map(|merging| (merging, measure(merging, &phases)))
        .collect();
    let mut table = Table::new(
        "Rate in the second half of each phase, MB/s, and ms until it was reached",
        &[
            "strategy",
            "sequential 32",
            "random 64",
            "sequential 16",
            "70 % read 16",
        ],
    );
    for (merging, measured) in &runs {
        let cells = measured
            .samples
            .chunks(spans)
            .take(phases.len())
            .map(|samples| {
                let adapted =
                    adapted(samples).map_or("never".to_string(), |spans| spans.to_string());
                format!("{} ({adapted})", short(steady(samples)))
            });
        table.rows.push(
            std::iter::once(merging.name().to_string())
                .chain(cells)
                .collect(),
        );
    }
    report.tables.push(table);
    report.checks = checks(&runs, spans);
    report.measured = json!(
        runs.iter()
            .map(|(merging, measured)| {
                let rates: Vec<f64> = measured.samples.iter().map(rate).collect();
                json!({ "strategy": merging.name(), "mb_per_s_by_ms": rates })
            })
            .collect::<Vec<_>>()
    );
    report.finish(places)
}

fn phases(time: Nanos) -> Vec<Phase> {
    let loads = [
        job(vec![write(1, 1, Sequential)], 1, 32),
        job(vec![write(1, 1, Random)], 1, 64),
        job(vec![write(1, 1, Sequential)], 1, 16),
        job(
            vec![read(70, 1, Sequential), write(30, 1, Sequential)],
            1,
            16,
        ),
    ];
    let phase = |job| Phase {
        load: Load {
            jobs: vec![job],
            submit: 1500,
            ..Load::default()
        },
        time,
    };
    loads.into_iter().map(phase).collect()
}

fn measure(merging: Merging, phases: &[Phase]) -> Measured {
    simulate(&Run {
        phases: phases.to_vec(),
        most_requests: u64::MAX / 8,
        least_time: 0,
        sample: SPAN,
        warm_up: 0,
        ..cell::base(merging)
    })
}

fn rate(sample: &Sample) -> f64 {
    sample.blocks as f64 * BLOCK_BYTES as f64 * 1e9 / SPAN as f64 / 1e6
}

/// Returns the mean rate of the second half.
fn steady(samples: &[Sample]) -> f64 {
    let half = &samples[samples.len() / 2..];
    half.iter().map(rate).sum::<f64>() / half.len().max(1) as f64
}

/// Returns the number of intervals until nine tenths of the steady rate are reached for three
/// intervals.
fn adapted(samples: &[Sample]) -> Option<usize> {
    let enough = 0.9 * steady(samples);
    samples
        .windows(3)
        .position(|three| three.iter().map(rate).sum::<f64>() / 3.0 >= enough)
}

fn checks(runs: &[(Merging, Measured)], spans: usize) -> Vec<Check> {
    let of = |wanted: Merging| {
        runs.iter()
            .find(|(merging, _)| *merging == wanted)
            .map(|(_, measured)| measured)
    };
    let phase = |merging: Merging, number: usize| {
        of(merging).and_then(|measured| measured.samples.chunks(spans).nth(number))
    };
    let time = |number: usize| {
        phase(Merging::Adaptive, number)
            .and_then(adapted)
            .map(|spans| spans as f64)
    };
    let mut checks = Vec::new();
    for (number, name, bound) in [
        (0, "ms to begin merging: sequential at depth 32", 100.0),
        (1, "ms to stop: random at depth 64", 10.0),
        (2, "ms to begin merging: sequential at depth 16", 100.0),
        (3, "ms to stop: 70 % read at depth 16", 10.0),
    ] {
        checks.push(Check::new(
            name,
            time(number),
            Relation::AtMost,
            Some(bound),
            "ms",
        ));
    }
    for number in 0..4 {
        let fixed = [Merging::Never, Merging::Batch, Merging::Always];
        let best = fixed
            .into_iter()
            .filter_map(|merging| phase(merging, number).map(steady))
            .fold(0.0, f64::max);
        let ours = phase(Merging::Adaptive, number).map(|samples| steady(samples) / best);
        checks.push(Check::new(
            format!(
                "phase {}: default over the best static strategy",
                number + 1
            ),
            ours,
            Relation::AtLeast,
            Some(0.97),
            "",
        ));
    }
    checks
}
