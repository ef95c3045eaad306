//! Interface of a store of samples: methods, results and errors.
//!
//! The server, the command line and the Python package access stores through this crate. The
//! embedded engine and [`MemoryStore`] implement the interface. [`conformance`] contains tests for
//! every implementation.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod answer;
mod class;
pub mod conformance;
mod error;
mod memory;
mod outlook;
mod piece;
mod series;
mod status;
mod stop;
mod store;

pub use answer::{Bucket, Exact, LevelSpan, Query, SeriesData, SeriesSummary, Step};
pub use class::{
    Class, Consistency, Copies, DEFAULT, Keep, Level, WhenFull, levels_text, parse_levels,
};
pub use error::{Error, Reason, Receipt, Relief};
pub use memory::MemoryStore;
pub use outlook::{Change, ClassOutlook, Outlook};
pub use piece::{Cut, PIECE_ROWS, Piece, Pieces};
pub use seiner_merge::simulate::Arrival;
pub use series::{LongSeries, Part, Results, Samples};
pub use status::{
    ClassStatus, DecisionRecord, Durability, LogStatus, Loss, SegmentStatus, Status, Trouble,
};
pub use stop::{Stop, Stopper};
pub use store::{Embedded, Extent, IsOver, Latest, Parts, Store};

/// Maximum number of fields of a source.
pub const MAX_FIELDS: usize = 1024;
/// Maximum length of a text value, in bytes.
pub const MAX_TEXT_BYTES: usize = 65_535;
