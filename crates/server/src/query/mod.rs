//! Queries over HTTP: names, and samples.

mod aggregates;
mod answer;
mod catalog;
mod hints;
mod influx;
mod influx_names;
mod plan;
mod wide;

pub(crate) use answer::query;
pub use answer::{HINTS, LEVELS, LOSSES, Outcome, TRUNCATED, levels, losses, write_answer};
pub(crate) use catalog::{fields, measurements, sources, tags, values};
pub(crate) use influx::influx;
pub(crate) use influx_names::{buckets, create_bucket, organizations};
pub(crate) use plan::time;
pub use plan::{Aggregate, Parameters, QueryPlan, Shape};
