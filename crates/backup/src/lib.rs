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

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod copy;
mod error;
mod folder;
mod joined;
mod pace;
mod reuse;
mod run;
mod sealed;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use folder::Folder;
pub use pace::Pace;
pub use run::{Copied, Plan, Stage, back_up, restore};
