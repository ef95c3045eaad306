//! OpenTSDB: lines `put metric time value tag=value …` and points in JSON become rows.
//!
//! The measurement of a row is the metric, and the field is `value`. Names of rows are in
//! [`LineNotation`](crate::line::LineNotation).

mod json;
mod line;
mod point;
#[cfg(test)]
mod tests;

pub use json::{BadPoints, decode_point, each_point};
pub use line::decode_line;
