//! Backups of a store that another process may write in the meantime.
//!
//! A store's directory is valid at every moment: after a power cut, a start finds all rows whose commit had ended. A
//! backup is a copy of the directory at one moment, so that it has the same guarantee. It is a directory that opens as
//! a store, without a format of its own.
//!
//! 1. All files of one listing are opened. They stay readable when the writing process removes them.
//! 2. The files that change are copied: ledger, catalog, journal, open segments. Journal files are reused by the
//!    writing process. If that happens, or if the copies do not fit together, this step is repeated with a new listing.
//! 3. The sealed segments are copied, which takes nearly all the time. Their bytes never change. A segment that the
//!    previous backup has is linked instead.
//! 4. The copies are checked, and the directory gets its final name.
//!
//! An interrupted backup is continued by the next one. A restore copies in the same way in the other direction.
//!
//! With the feature `object-storage`, backups may be in an object store as well: sealed segments are objects that
//! backups share, and a backup is a list of objects (`docs/format/backup.md`).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[cfg(feature = "object-storage")]
mod bucket;
mod copy;
mod directory;
mod error;
mod folder;
mod joined;
mod moment;
mod name;
mod pace;
mod place;
mod reuse;
mod run;
mod sealed;
mod target;
#[cfg(test)]
mod tests;

#[cfg(feature = "object-storage")]
pub use bucket::Bucket;
pub use error::Error;
pub use pace::Pace;
pub use place::{Copied, Place, back_up, restore};
pub use run::{Plan, Stage, Work};
