//! `merge-latency`: latency of acknowledgements during merges, beside a store that merges nothing.

use crate::log::load::StoreLoad;
use crate::log::store::ThreadedStore;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use anyhow::Result;
use clap::Args;
use seiner_engine::MergePolicy;
use serde::Serialize;
use serde_json::json;
use std::time::{Duration, Instant};

/// Settings of `merge-latency`.
#[derive(Args)]
pub struct MergeLatencySettings {
    /// Budget of the store that merges, in MiB
    #[arg(long, default_value_t = 1024)]
    budget: u64,
    /// Multiples of the budget to store before the measurement
    #[arg(long, default_value_t = 2.0)]
    before: f64,
    /// Seconds of measurement per store
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Batches of 1,024 rows per second
    #[arg(long, default_value_t = 500.0)]
    batches: f64,
}

/// Seconds for which one store is fed before the other store has its turn.
const TURN: f64 = 5.0;

/// Latencies of batches.
#[derive(Clone, Debug, Default, Serialize)]
struct Measured {
    batches: usize,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    most_ms: f64,
    stored_bytes: u64,
    merged_bytes: u64,
    segments_merged: u64,
    /// V at the end.
    live_share: f64,
}

const PURPOSE: &str = "Two stores on real files with their threads and the system's clock: one with a budget so large \
    that it merges nothing (and coalesces no small blocks), and one at V = 0.86 with lognormal rates (σ = 0.5), which merges continuously. V is not higher, \
    because journal, checkpoints and indexes need the remaining space of such a small store. \
    Both get batches of 1,024 rows at the same constant rate, in turns of five seconds. The latency of a batch starts at the moment \
    at which the batch was due, so that waiting behind a slow batch counts. Interval durability, 100 ms.";

/// Runs the benchmark.
pub fn run(settings: &MergeLatencySettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("merge-latency", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    let budget = settings.budget << 20;
    let full = StoreLoad::rings(budget, 0.86, 0.5, MergePolicy::default());
    let idle = StoreLoad {
        budget: 64 * budget,
        extra_writes: 0.0,
        ..full.clone()
    };
    // The journal must not take most of the remaining space.
    let journal = Some(budget / 128);
    // Both stores get the same sources and rings.
    let mut stores = [
        ThreadedStore::start(&idle, budget, journal, &places.output)?,
        ThreadedStore::start(&full, budget, journal, &places.output)?,
    ];
    let before = (budget as f64 * settings.before) as u64;
    for store in &mut stores {
        store.feed(before)?;
    }
    let start: Vec<_> = stores.iter().map(|store| store.status()).collect();
    let mut times: [Vec<f64>; 2] = Default::default();
    let turns = (settings.seconds / TURN).ceil() as u32;
    for _ in 0..turns {
        for (store, times) in stores.iter_mut().zip(&mut times) {
            let until = Instant::now() + Duration::from_secs_f64(TURN.min(settings.seconds));
            pace(store, settings.batches, until, times)?;
        }
    }
    let mut measured = Vec::new();
    for ((store, times), start) in stores.iter().zip(times).zip(start) {
        let mut one = percentiles(times);
        let status = store.status();
        one.live_share = store.log().fill.v();
        one.stored_bytes = status.block_bytes_sealed - start.block_bytes_sealed;
        one.merged_bytes = status.merge_written - start.merge_written;
        one.segments_merged = status.segments_merged - start.segments_merged;
        measured.push(one);
    }
    report.notes.push(format!(
        "budget {} MiB, a journal of a 128th, {} batches per second, {} s each",
        settings.budget,
        settings.batches,
        f64::from(turns) * TURN.min(settings.seconds)
    ));
    report.tables.push(table(&measured));
    let merges = measured[1].segments_merged as f64;
    report.checks = vec![
        Check::new(
            "p99.9 of acknowledgement with merging over p99.9 without",
            Some(measured[1].p999_ms / measured[0].p999_ms),
            Relation::AtMost,
            Some(2.0),
            "",
        ),
        Check::new(
            "segments merged during the measurement",
            Some(merges),
            Relation::AtLeast,
            Some(1.0),
            "",
        ),
        Check::new(
            "segments merged by the store that must not merge",
            Some(measured[0].segments_merged as f64),
            Relation::AtMost,
            Some(0.0),
            "",
        ),
    ];
    report.measured = json!({ "without": measured[0], "merging": measured[1] });
    report.finish(places)
}

/// Feeds a store at a constant rate.
fn pace(
    store: &mut ThreadedStore,
    batches: f64,
    until: Instant,
    times: &mut Vec<f64>,
) -> Result<()> {
    let step = Duration::from_secs_f64(1.0 / batches);
    let mut due = Instant::now();
    while due < until {
        if let Some(early) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        store.batch()?;
        times.push(due.elapsed().as_secs_f64() * 1e3);
        due += step;
    }
    Ok(())
}

fn percentiles(mut times: Vec<f64>) -> Measured {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = times.len().saturating_sub(1);
        times
            .get((times.len() as f64 * share) as usize)
            .or(times.get(last))
            .copied()
            .unwrap_or(0.0)
    };
    Measured {
        batches: times.len(),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        most_ms: at(1.0),
        ..Measured::default()
    }
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Time from the moment at which a batch was due to its acknowledgement, in ms",
        &[
            "store",
            "batches",
            "p50",
            "p99",
            "p99.9",
            "most",
            "V",
            "MB stored",
            "MB merged",
            "segments merged",
        ],
    );
    for (name, one) in ["merges nothing", "merges"].iter().zip(measured) {
        let times = [one.p50_ms, one.p99_ms, one.p999_ms, one.most_ms];
        let mut row = vec![name.to_string(), one.batches.to_string()];
        row.extend(times.map(|time| cell(Some(time))));
        row.push(cell(Some(one.live_share)));
        row.push(cell(Some(one.stored_bytes as f64 / 1e6)));
        row.push(cell(Some(one.merged_bytes as f64 / 1e6)));
        row.push(one.segments_merged.to_string());
        table.rows.push(row);
    }
    table
}
