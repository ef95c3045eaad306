//! Texts that targets of Prometheus answer: format 0.0.4, and OpenMetrics 1.0.
//!
//! Names of rows are in [`LabelNotation`](crate::remote_write::LabelNotation), so that a scraped series is the one that
//! remote write sends. Timestamps and exemplars are optional; exemplars are ignored.

mod cursor;
mod name;
mod parser;
#[cfg(test)]
mod tests;

pub use name::TargetLabels;
pub use parser::{BadText, Exposition, Form, Item, Label, Sample};
