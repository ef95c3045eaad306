//! Files on a volume of blocks: a [`Disk`](seiner_platform::Disk) without a file system, for a store on an array.
//!
//! The files are few, mostly large, and each is written by one thread. So space is allocated in *units* of whole
//! stripes, and a file is a list of runs of units. The *table* of all files is a snapshot with a log. Format:
//! `docs/format/volume.md`.
//!
//! Invariants:
//! - After a power cut the table is in its last synced state, or includes some of the later changes.
//! - Units are reused only when the table without them is durable and no reader has them.
//! - A length counts only when the bytes that it covers are durable.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[allow(clippy::disallowed_methods, reason = "the age of a status")]
mod array;
mod blocks;
mod disk;
mod file;
mod format;
mod space;
mod table;
mod table_log;

pub use array::ArrayBlocks;
pub use blocks::{BLOCK, Blocks, FileBlocks, VolumeShape};
pub use disk::{OpenError, VolumeDisk, clear};
