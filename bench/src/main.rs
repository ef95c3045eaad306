//! Benchmarks that a stranger can run. `make bench-NAME` runs one from the project's root.
//!
//! Each prints what it ran, on what and against what, writes all it measured to
//! `target/bench/NAME.json`, and makes `bench/RESULTS.md` anew from those files.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod client;
mod dataset;
mod feed;
mod latency;
mod log;
mod nbd;
mod peer;
mod process;
mod progress;
mod raid;
mod report;
mod run;
mod volume;
mod workload;

use anyhow::Result;
use clap::{Parser, Subcommand};
use report::Places;
use std::path::PathBuf;

/// Benchmarks of Seiner
#[derive(Parser)]
struct Arguments {
    /// Where results and generated data go
    #[arg(long, global = true, default_value = "target/bench")]
    output: PathBuf,
    /// The page that is made from all results
    #[arg(long, global = true, default_value = "bench/RESULTS.md")]
    page: PathBuf,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Our server and others, fed the same files over loopback
    Peers(run::peers::Settings),
    /// The engine without a server, one core
    Embedded(run::embedded::Settings),
    /// Memory with millions of sources, and appends while they are registered
    Core(run::core::Settings),
    /// How long the engine's lock is held with a million sources; one heavy query
    CoreLock(run::core_lock::Settings),
    /// Starting: cold, and after being killed at full load
    Restart(run::restart::Settings),
    /// Bytes written to the device for each byte of sealed blocks
    Amplification(run::amplification::Settings),
    /// Bytes that merging writes, simulated: every policy over the same streams
    MergeSim(run::merge_sim::Settings),
    /// Bytes written for each byte stored
    MergeWrites(run::merge_writes::Settings),
    /// How fast a store takes more when it is nearly full
    MergeRate(run::merge_rate::Settings),
    /// How long acknowledgements take while segments are merged
    MergeLatency(run::merge_latency::Settings),
    /// A small volume, nearly full, overwritten hundreds of times
    Soak(run::soak::Settings),
    /// The figures of the paper on the log store, on our engine
    MergeFigures(run::merge_figures::Settings),
    /// The whole engine against plain models, millions of steps
    Simulate(run::simulate::Settings),
    /// The paper's matrix of loads on a modelled array
    RaidMatrix(run::raid_matrix::Settings),
    /// Loads by which merging is judged, and on which it is never tuned
    RaidHeldout(run::raid_heldout::Settings),
    /// A load that changes
    RaidPhases(run::raid_phases::Settings),
    /// Arrays on real files behind a network block device
    RaidReal(run::raid_real::Settings),
    /// Many seeded runs of the array under faults
    RaidFaults(run::raid_faults::Settings),
    /// Only makes the page anew
    Summary,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let places = Places {
        output: arguments.output,
        page: arguments.page,
    };
    match arguments.benchmark {
        Benchmark::Peers(settings) => run::peers::run(&settings, &places),
        Benchmark::Embedded(settings) => run::embedded::run(&settings, &places),
        Benchmark::Core(settings) => run::core::run(&settings, &places),
        Benchmark::CoreLock(settings) => run::core_lock::run(&settings, &places),
        Benchmark::Restart(settings) => run::restart::run(&settings, &places),
        Benchmark::Amplification(settings) => run::amplification::run(&settings, &places),
        Benchmark::MergeSim(settings) => run::merge_sim::run(&settings, &places),
        Benchmark::MergeWrites(settings) => run::merge_writes::run(&settings, &places),
        Benchmark::MergeRate(settings) => run::merge_rate::run(&settings, &places),
        Benchmark::MergeLatency(settings) => run::merge_latency::run(&settings, &places),
        Benchmark::Soak(settings) => run::soak::run(&settings, &places),
        Benchmark::MergeFigures(settings) => run::merge_figures::run(&settings, &places),
        Benchmark::Simulate(settings) => run::simulate::run(&settings, &places),
        Benchmark::RaidMatrix(settings) => run::raid_matrix::run(&settings, &places),
        Benchmark::RaidHeldout(settings) => run::raid_heldout::run(&settings, &places),
        Benchmark::RaidPhases(settings) => run::raid_phases::run(&settings, &places),
        Benchmark::RaidReal(settings) => run::raid_real::run(&settings, &places),
        Benchmark::RaidFaults(settings) => run::raid_faults::run(&settings, &places),
        Benchmark::Summary => report::summarise(&places),
    }
}
