//! Graphite: lines `path value time` and pickles of the same become rows.
//!
//! The measurement of a row is the path up to its first semicolon. Each `;tag=value` after it is a tag. The field is
//! `value`. Names of rows are in [`LineNotation`](crate::line::LineNotation). A pickle is read by a decoder of its own,
//! which has no operations besides those for lists, tuples, texts and numbers. It cannot run code.

mod line;
mod name;
mod pickle;
mod sample;
#[cfg(test)]
mod tests;

pub use line::decode_line;
pub use pickle::{MAX_PICKLE, Pickle, PickleError};
