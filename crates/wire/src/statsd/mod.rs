//! StatsD: lines `name:value|type`, with sample rates, several values, and tags of DogStatsD.
//!
//! A line is decoded into values; their aggregation is the task of the caller. Names of metrics are in
//! [`LineNotation`](crate::line::LineNotation), with the tag `metric_type`.

mod line;
#[cfg(test)]
mod tests;

pub use line::{Kind, Line, MAX_VALUES, Metric, Value, decode_line};
