//! StatsD over UDP and TCP: values are aggregated for an interval, and then stored as rows.
//!
//! StatsD has no acknowledgement. Values of the present interval are in memory only: a crash loses them, and a stop
//! stores them. Memory is limited: values that would need more are rejected and counted.

mod aggregate;
mod flush;
mod lines;
mod state;
mod times;

pub use flush::serve;
pub use state::StatsdState;
