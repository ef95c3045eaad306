//! Seeded simulation of the whole engine, compared with simple models.
//!
//! A [`World`] drives an engine on a simulated disk and clock. A seed determines all appends,
//! reads, crashes and faults. Each seed is run with four stores:
//!
//! 1. A store that keeps everything. Every answer must equal that of an [`Oracle`], which is a map
//!    in memory.
//! 2. A store with retention. Its answers must be within the bounds that follow from the history
//!    of its rows.
//! 3. A store with roll-ups. Its aggregates must equal those of the original samples.
//! 4. A store like the second, whose sources come and go, so that many get the numbers of forgotten ones.
//!
//! The first wrong answer ends the run with a [`Violation`] that names the seed. A run with the same
//! seed repeats every operation.
//!
//! ```text
//! SEINER_SIM_RUNS=100000 cargo test -p seiner-sim     more seeds
//! SEINER_SIM_SEED=123 cargo test -p seiner-sim        one seed, with each step on stderr
//! cargo run --release -p seiner-sim --bin simulate    the same with a progress line
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answers;
mod change;
mod crash_injector;
mod datum;
mod faulty_disk;
mod generator;
mod names;
mod oracle;
mod plan;
mod retention_model;
mod rollup_model;
mod rules;
mod runner;
mod samples;
mod source_history;
mod world;

pub use crash_injector::{Work, WorkCount, WorkCounts};
pub use faulty_disk::{DiskFault, FaultyDisk};
pub use oracle::Oracle;
pub use plan::{FaultKind, RunPlan};
pub use runner::{Campaign, Outcome};
pub use world::{Report, Violation, World, Wrap};
