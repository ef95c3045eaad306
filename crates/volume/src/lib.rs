//! Files on a volume of blocks: a [`Disk`](seiner_platform::Disk) without a file system beneath it, for a store on an array.
//!
//! Few files, most of them large, each written by one: so room is given out in whole *units* of stripes, a file is a list of
//! runs of them, and the *table* of all files is a snapshot with a log behind it. `docs/format/volume.md` has the bytes.
//!
//! Invariants:
//! - What the table says after a power cut is what it said when it was last synced, or something of what was done since.
//! - Room is given out again only when the table that no longer has it is durable, and nobody reads it any more.
//! - A length counts only when what it covers is durable.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod array;
mod blocks;
mod disk;
mod file;
mod format;
mod journal;
mod space;
mod table;

pub use array::ArrayBlocks;
pub use blocks::{BLOCK, Blocks, FileBlocks, Shape};
pub use disk::{OpenError, VolumeDisk, clear};
