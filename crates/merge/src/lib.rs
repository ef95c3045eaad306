//! Merge decisions for a log of segments, as pure functions: which segments to drop unread, which
//! to merge, which blocks share a segment so that merges become rare, and when to delay writers.
//!
//! Nothing here does I/O, reads a clock or starts a thread. The same input gives the same result in
//! the engine, in [`simulate`] and in the benchmarks' figures. A caller
//!
//! 1. calls [`Lanes::lane`] for each sealed block and appends the block to the open segment of that
//!    lane, which has [`Lanes::segment_bytes`];
//! 2. keeps a [`SegmentStat`] for each sealed segment and a [`Fill`] of the whole store;
//! 3. calls a [`Policy`] when a segment was sealed or space is needed, and carries out the
//!    [`Decision`]: the drops first, then the merge;
//! 4. delays writers by [`Throttle::delay_s`].
//!
//! The model, its symbols and its formulas are those of *Riak* §1–5 (the log store): U, Um, V, D,
//! Dm, H, R. `docs/glossary.md` explains the words. Times are nanoseconds of the caller's clock,
//! amounts are bytes.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod fill;
mod lanes;
mod life;
mod policy;
mod segment;
pub mod simulate;

pub use fill::{Fill, Throttle, planing_segment_bytes};
pub use lanes::{Lane, LaneId, LaneSettings, Lanes};
pub use life::{Death, Rate, SourcePace};
pub use policy::{
    CostBenefit, Decision, Fifo, Fisherman, Greedy, Memory, MergePolicy, Patient, Policy, Victim,
    View, Why, least_dead_share,
};
pub use segment::SegmentStat;
