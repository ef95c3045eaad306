//! Queries over HTTP: what there is, and samples.

mod answer;
mod catalog;
mod influx;
mod plan;

pub(crate) use answer::query;
pub use answer::{LEVELS, levels, write_answer};
pub(crate) use catalog::{fields, measurements, sources, tags, values};
pub(crate) use influx::influx;
pub use plan::{Aggregate, Parameters, Plan};
