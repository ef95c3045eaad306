//! `merge-writes`: bytes written per byte stored.

use crate::log::counts::IntervalCounts;
use crate::log::load::StoreLoad;
use crate::log::store::SteppedStore;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use anyhow::Result;
use clap::Args;
use seiner_engine::MergePolicy;
use serde::Serialize;
use serde_json::json;

/// Settings of `merge-writes`.
#[derive(Args)]
pub struct MergeWritesSettings {
    /// Budget of each store, in MiB: in smaller stores, the indexes of segments take much of the
    /// remaining space
    #[arg(long, default_value_t = 512)]
    budget: u64,
    /// Multiples of the budget to store before the measurement; the rings of slow sources must be full
    #[arg(long, default_value_t = 4.0)]
    before: f64,
    /// Multiples of the budget to store during the measurement
    #[arg(long, default_value_t = 4.0)]
    turns: f64,
    /// Only workloads with this text in their names; the checks of other workloads stay open
    #[arg(long, default_value = "")]
    only: String,
    /// Policies to run; the checks of other policies stay open
    #[arg(long, value_delimiter = ',', default_values = ["patient", "fifo", "fisherman"])]
    policies: Vec<MergePolicy>,
}

/// Share of the budget that one policy stores before the next policy has its turn.
const TURN: f64 = 0.25;

/// Workload with the result of every policy.
struct Contest {
    name: &'static str,
    load: fn(u64, MergePolicy) -> StoreLoad,
}

const ALL: [MergePolicy; 3] = [
    MergePolicy::Patient,
    MergePolicy::Fifo,
    MergePolicy::Fisherman,
];
const PLANING: &str = "one lifetime, V = 0.7";
const MIXED: &str = "five lifetimes, 1 h to 1 y, V = 0.7";
const S1_V8: &str = "rings, σ = 1, V = 0.8";
const S1_V9: &str = "rings, σ = 1, V = 0.9";
const S05_V9: &str = "rings, σ = 0.5, V = 0.9";
const RANDOM_V9: &str = "rings, σ = 1, V = 0.9, blocks at random";

const CONTESTS: [Contest; 6] = [
    Contest {
        name: PLANING,
        load: |budget, policy| StoreLoad::ages(budget, 0.7, 1, 1.0, policy),
    },
    Contest {
        name: MIXED,
        // The fourth power of the ratio, times an hour, is a year.
        load: |budget, policy| StoreLoad::ages(budget, 0.7, 5, 9.675, policy),
    },
    Contest {
        name: S1_V8,
        load: |budget, policy| StoreLoad::rings(budget, 0.8, 1.0, policy),
    },
    Contest {
        name: S1_V9,
        load: |budget, policy| StoreLoad::rings(budget, 0.9, 1.0, policy),
    },
    Contest {
        name: S05_V9,
        load: |budget, policy| StoreLoad::rings(budget, 0.9, 0.5, policy),
    },
    Contest {
        name: RANDOM_V9,
        load: |budget, policy| StoreLoad::rings(budget, 0.9, 1.0, policy).in_bursts(),
    },
];

/// Result of a policy on a workload.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    workload: &'static str,
    policy: &'static str,
    /// Live share of the budget at the end, as counted by the store.
    v: f64,
    /// Used share at the end.
    u: f64,
    /// Share of the budget that open segments reserve at the end.
    open: f64,
    /// Dead share of the budget in sealed segments at the end.
    dead: f64,
    /// Counts from the empty store up to the first half of the budget.
    empty: IntervalCounts,
    /// Counts of the measurement.
    steady: IntervalCounts,
    /// Reason why the store rejected rows, if it did.
    rejected: Option<String>,
}

const PURPOSE: &str = "Stores on a small budget, overwritten many times, on real files. Each source keeps its \
    latest rows (rings of 50 blocks of 4 KiB, lognormal rates), or each class keeps rows up to its age; 625 segments per budget. The papers' \
    policies write one log, for which the engine needs two lanes; the default writes 32 lanes. The policies take turns, a quarter of the budget each. The clock is that of the load, so that counts are exact on any machine. \
    Written: the kernel's count for this process (including indexes and names) over the bytes of sealed blocks, once \
    the store was filled several times. Rates are megabytes of blocks per second of all work on one core, waits included.";

/// Runs the benchmark.
pub fn run(settings: &MergeWritesSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("merge-writes", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    report.notes.push(format!(
        "budget {} MiB per store, overwritten {} times before counting and {} times while counting; without a journal",
        settings.budget, settings.before, settings.turns
    ));
    let mut measured = Vec::new();
    let wanted = CONTESTS
        .iter()
        .filter(|contest| contest.name.contains(&settings.only));
    for contest in wanted {
        measured.extend(hold(contest, settings, places)?);
    }
    report.tables.push(table(&measured));
    report.checks = checks(&measured);
    report.measured = json!({ "budget": settings.budget << 20, "contests": measured });
    report.finish(places)
}

fn hold(
    contest: &Contest,
    settings: &MergeWritesSettings,
    places: &OutputPaths,
) -> Result<Vec<Measured>> {
    let budget = settings.budget << 20;
    let mut stores = Vec::new();
    let wanted = |policy: &MergePolicy| settings.policies.contains(policy);
    for policy in ALL.into_iter().filter(wanted) {
        let load = (contest.load)(budget, policy);
        let measured = Measured {
            workload: contest.name,
            policy: policy.name(),
            v: 0.0,
            u: 0.0,
            open: 0.0,
            dead: 0.0,
            empty: IntervalCounts::default(),
            steady: IntervalCounts::default(),
            rejected: None,
        };
        stores.push((SteppedStore::start(&load, &places.output)?, measured));
    }
    let turn = (budget as f64 * TURN) as u64;
    let turns = ((settings.before + settings.turns) / TURN).ceil() as u32;
    let steady = (settings.before / TURN).ceil() as u32;
    for number in 0..turns {
        for (running, measured) in stores.iter_mut().filter(|store| store.1.rejected.is_none()) {
            match running.feed(turn) {
                Ok(counts) if number < 2 => measured.empty.add(&counts),
                Ok(counts) if number >= steady => measured.steady.add(&counts),
                Ok(_) => {}
                Err(error) => measured.rejected = Some(format!("{error:#}")),
            }
        }
    }
    Ok(stores
        .into_iter()
        .map(|(running, measured)| finish(&running, measured))
        .collect())
}

fn finish(running: &SteppedStore, mut measured: Measured) -> Measured {
    let log = running.log();
    let share = |bytes: u64| bytes as f64 / log.fill.budget as f64;
    let sum = |open: bool, of: fn(&seiner_engine::merge::SegmentStat) -> u64| {
        let segments = log.segments.iter().filter(|segment| segment.open == open);
        share(segments.map(|segment| of(&segment.stat)).sum())
    };
    (measured.v, measured.u) = (log.fill.v(), log.fill.u());
    measured.open = sum(true, |stat| stat.bytes);
    measured.dead = sum(false, |stat| stat.bytes - stat.live.min(stat.bytes));
    eprintln!(
        "{}, {}: {} written, {} by the engine, {} of blocks, V {} U {}, open {}, dead {}; {} MB/s, {} while empty{}",
        measured.workload,
        measured.policy,
        cell(Some(measured.steady.device_written())),
        cell(Some(measured.steady.engine_written())),
        cell(Some(measured.steady.blocks_written())),
        cell(Some(measured.v)),
        cell(Some(measured.u)),
        cell(Some(measured.open)),
        cell(Some(measured.dead)),
        cell(Some(measured.steady.rate())),
        cell(Some(measured.empty.rate())),
        measured
            .rejected
            .as_ref()
            .map_or(String::new(), |why| format!("; rejected rows: {why}")),
    );
    measured
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Bytes written for each byte stored",
        &[
            "workload",
            "policy",
            "V",
            "U",
            "open segments",
            "dead",
            "written (kernel)",
            "written (segments)",
            "written (blocks)",
            "dropped",
            "merged",
            "mean D",
            "MB/s",
            "MB/s, empty",
        ],
    );
    for one in measured {
        let steady = &one.steady;
        let figures = match one.rejected {
            Some(_) => vec!["rejected".to_string(); 8],
            None => vec![
                cell(Some(steady.device_written())),
                cell(Some(steady.engine_written())),
                cell(Some(steady.blocks_written())),
                (steady
                    .segments_dropped
                    .saturating_sub(steady.segments_merged))
                .to_string(),
                steady.segments_merged.to_string(),
                cell(steady.mean_d),
                cell(Some(steady.rate())),
                cell(Some(one.empty.rate())),
            ],
        };
        let shares = [one.v, one.u, one.open, one.dead].map(|share| cell(Some(share)));
        let names = [one.workload.to_string(), one.policy.to_string()];
        table
            .rows
            .push(names.into_iter().chain(shares).chain(figures).collect());
    }
    table
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let of = |workload: &str, policy: MergePolicy| {
        measured
            .iter()
            .find(|one| one.workload == workload && one.policy == policy.name())
            .filter(|one| one.rejected.is_none())
    };
    let ours = |workload| of(workload, MergePolicy::default());
    let written = |workload| ours(workload).map(|one| one.steady.device_written());
    let at_most = |name: String, value, bound| Check::new(name, value, Relation::AtMost, bound, "");
    let mut checks = vec![
        at_most(
            format!("bytes written per byte stored, planing: {PLANING}"),
            written(PLANING),
            Some(1.05),
        ),
        at_most(
            format!("the same, {MIXED}"),
            written(MIXED),
            written(PLANING).map(|one| 1.1 * one),
        ),
    ];
    for (workload, bound) in [(S1_V8, 1.05), (S1_V9, 1.4), (S05_V9, 1.5), (RANDOM_V9, 1.5)] {
        let name = format!("the same, {workload}");
        checks.push(at_most(name, written(workload), Some(bound)));
    }
    checks
}
