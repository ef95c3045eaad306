//! Reproducible benchmarks. `make bench-NAME` runs one from the project's root.
//!
//! Each benchmark prints its load, the machine and the systems compared, writes all measurements to
//! `target/bench/NAME.json`, and updates `bench/RESULTS.md` from those files.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod client;
mod cluster;
mod dataset;
mod feed;
mod latency;
mod log;
mod nbd;
mod peer;
mod process;
mod progress;
mod protocol;
mod raid;
mod report;
mod run;
mod volume;
mod workload;

use anyhow::Result;
use clap::{Parser, Subcommand};
use report::OutputPaths;
use std::path::PathBuf;

/// Benchmarks of Seiner
#[derive(Parser)]
struct Arguments {
    /// Directory of results and generated data
    #[arg(long, global = true, default_value = "target/bench")]
    output: PathBuf,
    /// Page to generate from all results
    #[arg(long, global = true, default_value = "bench/RESULTS.md")]
    page: PathBuf,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Load our server and others with the same files over loopback
    Peers(run::peers::PeersSettings),
    /// Load our server and VictoriaMetrics in several protocols
    Protocols(run::protocols::ProtocolsSettings),
    /// Ask our server and others questions over many series
    Queries(run::queries::QueriesSettings),
    /// Load the engine without a server, on one core
    Embedded(run::embedded::EmbeddedSettings),
    /// Measure size and speed by the number of sensors, with bundles and without
    Sensors(run::sensors::SensorsSettings),
    /// Sensors that come and go, for 200 of their lifetimes
    Churn(run::churn::ChurnSettings),
    /// Store very many sensors in a fixed memory, and start again
    Crowd(run::crowd::CrowdSettings),
    /// Measure memory with millions of sources, and appends during their registration
    Core(run::core::CoreSettings),
    /// Measure the hold times of the engine's lock with a million sources, and one heavy query
    CoreLock(run::core_lock::CoreLockSettings),
    /// Measure size and speed of bundles: few rows each of many sources
    Bundles(run::bundles::BundlesSettings),
    /// Measure the duration of starts: cold, and after a kill at full load
    Restart(run::restart::RestartSettings),
    /// Measure the bytes written to the device per byte of sealed blocks
    Amplification(run::amplification::AmplificationSettings),
    /// Simulate the bytes that merging writes: every policy over the same streams
    MergeSim(run::merge_sim::MergeSimSettings),
    /// Measure the bytes written per byte stored
    MergeWrites(run::merge_writes::MergeWritesSettings),
    /// Measure the write rate of a nearly full store
    MergeRate(run::merge_rate::MergeRateSettings),
    /// Measure the latency of acknowledgements during merges
    MergeLatency(run::merge_latency::MergeLatencySettings),
    /// Overwrite a small, nearly full volume hundreds of times
    Soak(run::soak::SoakSettings),
    /// Repeat the figures of the paper on the log store with our engine
    MergeFigures(run::merge_figures::MergeFiguresSettings),
    /// Compare the whole engine with plain models over millions of steps
    Simulate(run::simulate::SimulateSettings),
    /// Run the paper's matrix of loads on a modelled array
    RaidMatrix(run::raid_matrix::RaidMatrixSettings),
    /// Run the held-out loads: merging is judged by them and never tuned on them
    RaidHeldout(run::raid_heldout::RaidHeldoutSettings),
    /// Measure the delay until merging adapts to a changed load
    RaidPhases(run::raid_phases::RaidPhasesSettings),
    /// Run arrays on real files behind a network block device
    RaidReal(run::raid_real::RaidRealSettings),
    /// Inject faults into arrays, with many seeds
    RaidFaults(run::raid_faults::RaidFaultsSettings),
    /// Kill, cut off and disturb parts of a cluster, and look for every acknowledged row
    ClusterFaults(run::cluster_faults::ClusterFaultsSettings),
    /// Measure processor time and bytes of a cluster by layer, and reads, against one row per sample
    ClusterCost(run::cluster_cost::ClusterCostSettings),
    /// Measure the cost of a sample from one node to five
    ClusterScale(run::cluster_scale::ClusterScaleSettings),
    /// Measure how ports balance skewed clients
    ClusterBalance(run::cluster_balance::ClusterBalanceSettings),
    /// Measure the bytes that a node writes per byte of rows: time windows against our compaction
    ClusterCompaction(run::cluster_compaction::ClusterCompactionSettings),
    /// Only update the page
    Summary,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let places = OutputPaths {
        output: arguments.output,
        page: arguments.page,
    };
    match arguments.benchmark {
        Benchmark::Peers(settings) => run::peers::run(&settings, &places),
        Benchmark::Protocols(settings) => run::protocols::run(&settings, &places),
        Benchmark::Queries(settings) => run::queries::run(&settings, &places),
        Benchmark::Embedded(settings) => run::embedded::run(&settings, &places),
        Benchmark::Sensors(settings) => run::sensors::run(&settings, &places),
        Benchmark::Churn(settings) => run::churn::run(&settings, &places),
        Benchmark::Crowd(settings) => run::crowd::run(&settings, &places),
        Benchmark::Core(settings) => run::core::run(&settings, &places),
        Benchmark::CoreLock(settings) => run::core_lock::run(&settings, &places),
        Benchmark::Bundles(settings) => run::bundles::run(&settings, &places),
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
        Benchmark::ClusterFaults(settings) => run::cluster_faults::run(&settings, &places),
        Benchmark::ClusterCost(settings) => run::cluster_cost::run(&settings, &places),
        Benchmark::ClusterScale(settings) => run::cluster_scale::run(&settings, &places),
        Benchmark::ClusterBalance(settings) => run::cluster_balance::run(&settings, &places),
        Benchmark::ClusterCompaction(settings) => run::cluster_compaction::run(&settings, &places),
        Benchmark::Summary => report::summarise(&places),
    }
}
