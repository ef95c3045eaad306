//! The journal: the promise kept between acknowledgement and segment.
//!
//! Rows are staged as they are buffered, in the same encoding, and written as *records* to a chain
//! of files. A file may go when every block that begins in it lies in a sealed segment; rows are
//! relative to the beginning of their block, so what is left can always be replayed.

pub mod files;
pub mod record;
pub mod rows;
pub mod staging;

/// The names of journal files begin so; a number in hexadecimal follows.
pub const PREFIX: &str = "journal-";
/// Files that wait to be written over begin so.
pub const SPARE_PREFIX: &str = "spare-";
/// The names of files set aside end so.
pub const DAMAGED: &str = ".damaged";
