//! Seeded simulation of the whole engine against a plain model.
//!
//! A [`World`] drives an engine on a simulated disk and clock through appends, reads, crashes
//! and faults, all chosen by a seed, and compares every answer with an [`Oracle`], the obvious
//! store in memory; in a second run of each seed, of a store that lets go of data, with bounds
//! that its history gives, and in a third of one that makes what is old coarser. What is wrong ends as a [`Violation`] that names the seed; the same
//! seed gives the same run, operation by operation.
//!
//! ```text
//! SEINER_SIM_RUNS=100000 cargo test -p seiner-sim     more seeds
//! SEINER_SIM_SEED=123 cargo test -p seiner-sim        one seed, told step by step
//! cargo run --release -p seiner-sim --bin simulate    the same with a progress line
//! ```

mod answers;
mod canary;
mod cast;
mod datum;
mod history;
mod ladder;
mod names;
mod oracle;
mod plan;
mod runner;
mod witness;
mod world;

pub use canary::{Liar, Lie};
pub use oracle::Oracle;
pub use plan::{Plan, Trouble};
pub use runner::{Campaign, Outcome};
pub use witness::{Count, Work, Works};
pub use world::{Report, Violation, World, Wrap};
