//! `merge-rate`: write rate of a nearly full store.

use crate::latency::median;
use crate::log::load::StoreLoad;
use crate::log::store::ThreadedStore;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use anyhow::Result;
use clap::Args;
use seiner_engine::MergePolicy;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

/// Settings of `merge-rate`.
#[derive(Args)]
pub struct MergeRateSettings {
    /// Budget of each store, in MiB. In small stores, the syncs of small segments affect the rate
    #[arg(long, default_value_t = 1024)]
    budget: u64,
    /// Multiples of the budget to store before the measurement
    #[arg(long, default_value_t = 4.0)]
    before: f64,
    /// Policies to run; the checks of other policies stay open
    #[arg(long, value_delimiter = ',', default_values = ["patient", "fifo", "fisherman"])]
    policies: Vec<MergePolicy>,
    /// Let the blocks of a source arrive at random instead of at even intervals: more has to be merged
    #[arg(long)]
    random: bool,
}

/// Share of the budget to store per turn. A turn also ends after [`TURN_PATIENCE`], because writers
/// wait under a policy that cannot keep up.
const TURN: f64 = 0.25;
const TURN_PATIENCE: Duration = Duration::from_secs(30);

const PURPOSE: &str = "Stores with threads of their own at V = 0.9, fed at full speed: rings of 50 blocks of 4 KiB, \
    lognormal rates (σ = 1), 625 segments per budget, values that do not compress, no journal. The papers' \
    policies write one log, for which the engine needs two lanes; the default writes 32 lanes. A store that was \
    overwritten several times and a store that is empty at the start of the round take turns. A turn is a quarter of \
    the budget or half a minute, the shorter of both. Rates are megabytes of blocks per second.";

/// Runs the benchmark.
pub fn run(settings: &MergeRateSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("merge-rate", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    report.notes.push(format!(
        "budget {} MiB per store, overwritten {} times before the measurement, {ROUNDS} rounds, blocks {}",
        settings.budget,
        settings.before,
        match settings.random {
            true => "at random",
            false => "at even intervals",
        }
    ));
    let sustained = sustain(settings, places)?;
    report.tables.push(sustained_table(&sustained));
    report.checks = checks(&sustained);
    report.measured = json!({ "budget": settings.budget << 20, "sustained": sustained });
    report.finish(places)
}

/// Write rate of a full store beside an empty one.
#[derive(Clone, Debug, Serialize)]
struct Sustained {
    policy: &'static str,
    /// Megabytes of blocks per second, by round, into the store that was overwritten.
    full: Vec<f64>,
    /// Megabytes of blocks per second, by round, into a store that was empty at the start of the
    /// round.
    empty: Vec<f64>,
    /// Reason why the store rejected rows, if it did.
    rejected: Option<String>,
}

impl Sustained {
    /// Returns the median of the rounds' ratios.
    fn kept(&self) -> Option<f64> {
        let rounds = self.full.iter().zip(&self.empty);
        let ratios = rounds.map(|(full, empty)| full / empty);
        median(ratios).filter(|_| self.rejected.is_none())
    }
}

/// Number of rounds of the sustained rate.
const ROUNDS: usize = 7;

/// Feeds stores with their own threads at full speed: a full one and an empty one in turns.
fn sustain(settings: &MergeRateSettings, places: &OutputPaths) -> Result<Vec<Sustained>> {
    let budget = settings.budget << 20;
    let turn = (budget as f64 * TURN) as u64;
    let mut all = Vec::new();
    for &policy in &settings.policies {
        let rings = StoreLoad::rings(budget, 0.9, 1.0, policy);
        let load = match settings.random {
            true => rings.in_bursts(),
            false => rings,
        };
        let mut one = Sustained {
            policy: policy.name(),
            full: Vec::new(),
            empty: Vec::new(),
            rejected: None,
        };
        let mut full = ThreadedStore::start(&load, budget, None, &places.output)?;
        let mut rounds = || -> Result<()> {
            let patience = TURN_PATIENCE.mul_f64(settings.before / TURN);
            full.feed_within(patience, (budget as f64 * settings.before) as u64)?;
            for _ in 0..ROUNDS {
                one.full.push(full.feed_within(TURN_PATIENCE, turn)? / 1e6);
                let mut empty = ThreadedStore::start(&load, budget, None, &places.output)?;
                one.empty
                    .push(empty.feed_within(TURN_PATIENCE, turn)? / 1e6);
            }
            Ok(())
        };
        one.rejected = rounds().err().map(|error| format!("{error:#}"));
        eprintln!("{one:?}");
        all.push(one);
    }
    Ok(all)
}

fn sustained_table(sustained: &[Sustained]) -> Table {
    let title = "Sustained rate at V = 0.9, σ = 1: own threads, at full speed";
    let columns = [
        "policy",
        "MB/s, full (median)",
        "MB/s, empty (median)",
        "kept",
    ];
    let mut table = Table::new(title, &columns);
    let median = |rates: &[f64]| cell(median(rates.iter().copied()));
    for one in sustained {
        let kept = match &one.rejected {
            Some(_) => "rejected".to_string(),
            None => cell(one.kept()),
        };
        let row = [
            one.policy.to_string(),
            median(&one.full),
            median(&one.empty),
            kept,
        ];
        table.rows.push(row.into());
    }
    table
}

fn checks(sustained: &[Sustained]) -> Vec<Check> {
    let kept = |policy| {
        let sustained = sustained
            .iter()
            .find(|one| one.policy == MergePolicy::name(policy));
        sustained.and_then(Sustained::kept)
    };
    vec![
        Check::new(
            "sustained rate at V = 0.9 over the rate of an empty store",
            kept(MergePolicy::default()),
            Relation::AtLeast,
            Some(0.9),
            "",
        ),
        Check::new(
            "the same ratio of the paper's baseline, fifo (expected to collapse)",
            kept(MergePolicy::Fifo),
            Relation::Below,
            Some(0.9),
            "",
        ),
    ]
}
