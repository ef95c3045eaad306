//! The merge of a log, as pure functions: which segments to drop unread, which to rewrite, which
//! blocks to keep together so that neither is needed, and when to slow the writers.
//!
//! Nothing here does I/O, looks at a clock or starts a thread: the same input gives the same
//! answer in the engine, in [`simulate`] and in the figures. A caller
//!
//! 1. asks [`Lanes::lane`] for each block it seals, and appends it to the open segment of that
//!    lane, which has [`Lanes::segment_bytes`];
//! 2. keeps a [`SegmentStat`] for each sealed segment, and a [`Fill`] of the whole;
//! 3. asks a [`Policy`] when a segment was sealed or room is wanted, and does what the
//!    [`Decision`] says: drops first, then the merge;
//! 4. delays whoever writes by [`Throttle::delay_s`].
//!
//! The model, its symbols and its formulas are those of *Riak* §1–5 (the log store): U, Um, V, D,
//! Dm, H, R. Times are nanoseconds of the caller's clock, amounts are bytes.

mod fill;
mod lanes;
mod life;
mod output;
mod policy;
mod segment;
pub mod simulate;

pub use fill::{Fill, Throttle, planing_segment_bytes};
pub use lanes::{Lane, LaneId, LaneSettings, Lanes};
pub use life::{Death, Rate};
pub use output::gather;
pub use policy::{
    CostBenefit, Decision, Fifo, Fisherman, Greedy, Kind, Memory, Patient, Policy, Victim, View,
    Why, least_dead_share,
};
pub use segment::SegmentStat;
