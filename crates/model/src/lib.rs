//! Data model: sources, series, samples, intervals and selectors.
//!
//! Contains types only: no I/O, no clock, no encoding. Every other crate of the workspace may depend on this
//! crate. It depends on none of them.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod batch;
mod calendar;
mod columns;
mod pattern;
mod selector;
mod size;
mod source;
mod time;
mod value;

pub use batch::{Batch, Cell, Notation, Row};
pub use calendar::{parse_date, rfc3339};
pub use columns::{Bitmap, Column, Columns, FieldColumn, Strings};
pub use pattern::{Automaton, Pattern};
pub use selector::{Condition, Matcher, Selector, SelectorError};
pub use size::{parse_bytes, parse_count};
pub use source::{KeyError, LevelId, SourceId, SourceKey};
pub use time::{
    Interval, Moment, TimeError, duration_text, parse_duration, parse_moment, parse_time,
    parse_units, plausible_times, plausible_unit,
};
pub use value::{FieldType, Value, has_text_of};
