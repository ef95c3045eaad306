//! Queries over HTTP: names, and samples.

mod aggregates;
mod answer;
mod catalog;
mod hints;
mod plan;
mod range;
mod summary;
mod wide;

pub use answer::{HINTS, LEVELS, LOSSES, Outcome, TRUNCATED, levels, losses, write_answer};
pub(crate) use answer::{latest, query};
pub(crate) use catalog::{fields, measurements, sources, summary, tags, values};
pub(crate) use plan::time;
pub use plan::{Aggregate, Parameters, QueryPlan, Shape};
pub(crate) use range::range;
pub use summary::{Summary, summaries};
