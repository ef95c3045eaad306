//! Segments: runs of blocks, written once, with an index of their own at the end.

pub mod files;
pub mod footer;
pub mod open;
pub mod sealed;
pub mod tally;

/// Writes to a volume begin and end at multiples of this.
pub const ALIGNMENT: usize = 4096;

/// Where a block lies, and what of it is known without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The source.
    pub source: u32,
    /// The block's number.
    pub number: u64,
    /// The first time in it, ns.
    pub first: i64,
    /// The last time in it, ns.
    pub last: i64,
    /// Where it begins in the segment, in bytes.
    pub offset: u32,
    /// Its bytes.
    pub len: u32,
    /// Its rows.
    pub rows: u32,
    /// Rows that the source has had up to the end of this block, ever: tells which blocks of a ring
    /// are past its end without listing them all.
    pub ordinal: u64,
}
