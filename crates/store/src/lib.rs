//! The interface of a store of samples: what it is asked, what it answers, and what can go wrong.
//!
//! The server, the command line and the Python package know stores by this crate. The embedded engine is one
//! implementation, [`MemoryStore`] another; [`conformance`] holds for all.

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
mod store;

pub use answer::{Bucket, Exact, LevelSpan, Query, SeriesData, SeriesSummary, Step};
pub use class::{Class, DEFAULT, Keep, Level, WhenFull, levels_text, parse_levels};
pub use error::{Error, Reason, Receipt, Relief};
pub use memory::MemoryStore;
pub use outlook::{Change, ClassOutlook, Outlook};
pub use piece::{Cut, PIECE_ROWS, Piece, Pieces};
pub use series::{Found, LongSeries, Part, Samples};
pub use status::{
    ClassStatus, Durability, LogStatus, Loss, Record, SegmentStatus, Status, Trouble,
};
pub use store::{Embedded, IsOver, Latest, Store};

/// Fields that a source can have at most.
pub const MAX_FIELDS: usize = 1024;
/// The longest text value, in bytes.
pub const MAX_TEXT_BYTES: usize = 65_535;
