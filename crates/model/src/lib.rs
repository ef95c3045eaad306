//! What a source, a series, a sample, an interval and a query *are*.
//!
//! Nouns only: no I/O, no clock, no encoding. Every other crate of the workspace may
//! depend on this one; it depends on none of them.

mod batch;
mod columns;
mod selector;
mod source;
mod time;
mod value;

pub use batch::{Batch, Cell, Notation, Row};
pub use columns::{Bitmap, Column, Columns, FieldColumn, Strings};
pub use selector::{Condition, Matcher, Selector, SelectorError};
pub use source::{KeyError, LevelId, SourceId, SourceKey};
pub use time::{Interval, TimeError, duration_text, parse_duration, parse_time};
pub use value::{FieldType, Value};
