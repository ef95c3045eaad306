//! `merge-sim`: simulation of the bytes that merging writes, with every policy over the same
//! streams.

use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use anyhow::Result;
use clap::Args;
use seiner_merge::simulate::{self, Arrivals, Settings as Simulation, Stream, Workload};
use seiner_merge::{LaneSettings, MergePolicy, Throttle};
use serde::Serialize;
use serde_json::json;

/// Settings of `merge-sim`.
#[derive(Args)]
pub struct MergeSimSettings {
    /// Number of sources; the figures are for 4000
    #[arg(long, default_value_t = 4000)]
    sources: u32,
    /// Number of blocks in a source's ring
    #[arg(long, default_value_t = 50)]
    ring: u32,
    /// Maximum number of blocks per segment
    #[arg(long, default_value_t = 400)]
    segment_blocks: u64,
    /// Number of lanes of the default policy
    #[arg(long, default_value_t = 32)]
    lanes: u32,
    /// Seed of all pseudo-random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const UM: f64 = 0.95;

/// Standard deviation of the logarithm of rates, live share, and the reference values: FIFO,
/// greedy, cost-benefit, fisherman, 32 lanes.
const CASES: [(f64, f64, [f64; 5]); 4] = [
    (1.0, 0.8, [3.04, 3.02, 3.02, 2.67, 1.00]),
    (1.0, 0.9, [7.80, 7.56, 7.61, 4.93, 1.44]),
    (1.5, 0.9, [3.61, 3.46, 3.26, 3.02, 1.01]),
    (0.5, 0.9, [9.08, 6.86, 7.08, 4.16, 1.51]),
];

/// Precision of the reference values, which have two decimal places.
const PRECISION: f64 = 0.005;

/// Ages of five retention classes in hours: an hour, a day, a week, a month, a year.
const AGES: [f64; 5] = [1.0, 24.0, 168.0, 720.0, 8760.0];

/// Start and length of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Setup {
    name: &'static str,
    #[serde(skip)]
    arrivals: Arrivals,
    #[serde(skip)]
    rate_blocks: Option<u32>,
    from_empty: bool,
    /// Length of the warm-up, in capacities.
    warm_up: u64,
    measured: u64,
}

const STEADY: Setup = Setup {
    name: "a full store, a block a period",
    arrivals: Arrivals::Steady,
    rate_blocks: None,
    from_empty: false,
    warm_up: 4,
    measured: 4,
};
const RANDOM: Setup = Setup {
    name: "a full store, blocks at random",
    arrivals: Arrivals::Random,
    ..STEADY
};
const CHANGING: Setup = Setup {
    name: "a full store, a block a period, rates that change",
    rate_blocks: Some(400),
    ..STEADY
};
const EMPTY: Setup = Setup {
    name: "an empty store, a block a period",
    from_empty: true,
    warm_up: 7,
    measured: 3,
    ..STEADY
};
const EMPTY_RANDOM: Setup = Setup {
    name: "an empty store, blocks at random",
    arrivals: Arrivals::Random,
    ..EMPTY
};

/// One simulation.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    setup: Setup,
    workload: String,
    v: f64,
    policy: &'static str,
    lanes: u32,
    written_per_byte: f64,
    mean_u: f64,
    peak_u: f64,
    drops: u64,
    merges: u64,
    /// Live share at the end.
    v_reached: f64,
    /// True if the store was full and could not continue.
    full: bool,
}

const PURPOSE: &str = "Bytes written to segments for each byte of blocks stored, by simulation with the engine's own \
    merging code. Every series overwrites its own ring; rates are lognormal with deviation σ. Space of open \
    segments and of a merge's output counts as used, and writers may never use more than the capacity. The papers' \
    policies write one log; the default policy has lanes. The reference values are those of the design. The values of \
    the same policies, simulated here, are beside them.";

/// Runs the benchmark.
pub fn run(settings: &MergeSimSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("merge-sim", PURPOSE);
    report.notes.push(format!(
        "{} sources, rings of {} blocks, {} blocks per segment, Um = {UM}, {} lanes, seed {}",
        settings.sources, settings.ring, settings.segment_blocks, settings.lanes, settings.seed
    ));
    report.notes.push(
        "In a store that begins empty, the rings of slow sources stay incomplete for long: V stays below the given value, \
         which is easier. The reference values are closest to this case. A full store begins with all its live blocks. \
         Blocks at random (a Poisson process) die up to a third earlier or later than any forecast. Rates that change \
         are drawn anew from the same distribution, after 400 blocks of a source on average: eight rings."
            .to_string(),
    );
    let mut measured = Vec::new();
    for setup in [STEADY, RANDOM, CHANGING, EMPTY, EMPTY_RANDOM] {
        let (rows, of_setup) = cases(settings, setup);
        let mut table = Table::new(
            format!("Beginning with {}", setup.name),
            &[
                "case",
                "fifo",
                "greedy",
                "cost-benefit",
                "fisherman",
                "default",
            ],
        );
        table.rows = rows;
        report.tables.push(table);
        measured.extend(of_setup);
    }
    let ages = ages(settings);
    report.tables.push(ages_table(&ages));
    report.checks = checks(&measured, &ages);
    measured.extend(ages);
    report.measured = json!(measured);
    report.finish(places)
}

/// Runs all policies over all cases. Returns the rows of the table and the measurements.
fn cases(settings: &MergeSimSettings, setup: Setup) -> (Vec<Vec<String>>, Vec<Measured>) {
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for (sigma, v, to_beat) in CASES {
        let workload = Workload {
            arrivals: setup.arrivals,
            rate_blocks: setup.rate_blocks,
            from_empty: setup.from_empty,
            ..Workload::rings(settings.sources, settings.ring, sigma, settings.seed)
        };
        let of_case: Vec<Measured> = MergePolicy::ALL
            .into_iter()
            .map(|kind| measure(settings, setup, format!("σ = {sigma}"), &workload, v, kind))
            .collect();
        let cells = of_case
            .iter()
            .zip(to_beat)
            .map(|(one, to_beat)| format!("{} ({to_beat:.2})", cell(Some(one.written_per_byte))));
        rows.push(
            std::iter::once(format!("σ = {sigma}, V = {v} (reference)"))
                .chain(cells)
                .collect(),
        );
        all.extend(of_case);
    }
    (rows, all)
}

/// Runs the default policy over five classes and over one class, with retention by age.
fn ages(settings: &MergeSimSettings) -> Vec<Measured> {
    let live = u64::from(settings.sources) * u64::from(settings.ring);
    let classes = |name: &str, ages: &[f64], v: f64, kind: MergePolicy| {
        let workload = Workload::ages(settings.sources, ages, live, 1.0, settings.seed);
        measure(settings, STEADY, name.to_string(), &workload, v, kind)
    };
    let mut all = Vec::new();
    for v in [0.8, 0.9] {
        for kind in [
            MergePolicy::Fifo,
            MergePolicy::Fisherman,
            MergePolicy::Patient,
        ] {
            all.push(classes("one lifetime", &AGES[..1], v, kind));
            all.push(classes("five lifetimes", &AGES, v, kind));
        }
    }
    all
}

fn ages_table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Kept by age: five classes from 1 h to 1 y, scaled, with equal rates",
        &["V", "policy", "one lifetime", "five lifetimes"],
    );
    for pair in measured.chunks(2) {
        table.rows.push(vec![
            pair[0].v.to_string(),
            pair[0].policy.to_string(),
            cell(Some(pair[0].written_per_byte)),
            cell(Some(pair[1].written_per_byte)),
        ]);
    }
    table
}

fn measure(
    settings: &MergeSimSettings,
    setup: Setup,
    name: String,
    workload: &Workload,
    v: f64,
    policy: MergePolicy,
) -> Measured {
    let block_bytes = u64::from(workload.block_bytes);
    let segment_bytes = settings.segment_blocks * block_bytes;
    let budget = ((workload.live_blocks * block_bytes) as f64 / v) as u64;
    let lanes = (policy == MergePolicy::Patient).then_some(LaneSettings {
        lanes: settings.lanes,
        segment_bytes,
        least_bytes: segment_bytes / 16,
    });
    let simulation = Simulation {
        budget,
        um: UM,
        segment_bytes,
        policy,
        lanes,
        throttle: Throttle::default(),
        warm_up: setup.warm_up * budget,
        measured: setup.measured * budget,
    };
    let outcome = simulate::run(&simulation, Stream::new(workload), |_| ());
    let measured = Measured {
        setup,
        workload: name,
        v,
        policy: policy.name(),
        lanes: lanes.map_or(1, |lanes| lanes.lanes),
        written_per_byte: outcome.written_per_byte(),
        mean_u: outcome.mean_u,
        peak_u: outcome.peak_u,
        drops: outcome.counts.drops,
        merges: outcome.counts.merges,
        v_reached: outcome.v,
        full: outcome.full.is_some(),
    };
    eprintln!(
        "{}, {}, V = {v}, {}: {:.3}",
        setup.name, measured.workload, measured.policy, measured.written_per_byte
    );
    measured
}

fn checks(measured: &[Measured], ages: &[Measured]) -> Vec<Check> {
    let ours = |setup: Setup, sigma: f64, v: f64| {
        let name = format!("σ = {sigma}");
        let named = |one: &&Measured| {
            one.setup == setup
                && one.workload == name
                && one.v == v
                && one.policy == MergePolicy::Patient.name()
        };
        measured.iter().find(named).map(|one| one.written_per_byte)
    };
    let mut checks: Vec<Check> = [(1.0, 0.8, 1.05), (1.0, 0.9, 1.4), (0.5, 0.9, 1.5)]
        .map(|(sigma, v, bound)| {
            let name = format!("default, full store: σ = {sigma}, V = {v}");
            Check::new(
                name,
                ours(STEADY, sigma, v),
                Relation::AtMost,
                Some(bound),
                "B/B",
            )
        })
        .into();
    checks.push(Check::new(
        "default, full store, blocks at random: σ = 1, V = 0.9",
        ours(RANDOM, 1.0, 0.9),
        Relation::AtMost,
        Some(1.5),
        "B/B",
    ));
    checks.push(Check::new(
        "default, full store, rates that change: σ = 1, V = 0.9",
        ours(CHANGING, 1.0, 0.9),
        Relation::AtMost,
        Some(1.4),
        "B/B",
    ));
    for (sigma, v, to_beat) in CASES {
        let name =
            format!("default against the reference of 32 lanes, empty store: σ = {sigma}, V = {v}");
        checks.push(Check::new(
            name,
            ours(EMPTY, sigma, v),
            Relation::AtMost,
            Some(to_beat[4] + PRECISION),
            "B/B",
        ));
    }
    for v in [0.8, 0.9] {
        let of = |name: &str| {
            let named = |one: &&Measured| {
                one.v == v && one.workload == name && one.policy == MergePolicy::Patient.name()
            };
            ages.iter().find(named).map(|one| one.written_per_byte)
        };
        let bound = of("one lifetime").map(|one| one * 1.1);
        let name = format!("default: five lifetimes against 1.10 × one, V = {v}");
        checks.push(Check::new(
            name,
            of("five lifetimes"),
            Relation::AtMost,
            bound,
            "B/B",
        ));
    }
    let peak = measured
        .iter()
        .chain(ages)
        .map(|one| one.peak_u)
        .reduce(f64::max);
    checks.push(Check::new(
        "highest fill of all runs",
        peak,
        Relation::AtMost,
        Some(1.0),
        "of C",
    ));
    checks
}
