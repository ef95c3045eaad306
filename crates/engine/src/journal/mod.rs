//! Journal: durability of rows between their acknowledgement and their segment.
//!
//! Rows are staged as they are buffered, in the same encoding, and written as *records* to a
//! sequence of files. A file may be released when every block that begins in it is in a sealed
//! segment. Rows are relative to the beginning of their block, so the remaining files can always be
//! replayed.

pub mod files;
pub mod pins;
pub mod reader;
pub mod record;
pub mod rows;
pub mod staging;

/// Prefix of the names of journal files. A number in hexadecimal follows.
pub const PREFIX: &str = "journal-";
/// Prefix of the names of spare files, which wait to be overwritten.
pub const SPARE_PREFIX: &str = "spare-";
/// Suffix of the names of files set aside.
pub const DAMAGED: &str = ".damaged";
