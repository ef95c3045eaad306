//! Traits for the outside world. Everything non-deterministic enters through this crate.
//!
//! [`Disk`] and [`File`] are a flat directory of named files. [`Clock`] provides the time. Each trait has a
//! real implementation and a simulated one, which is deterministic from a seed and can inject faults.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod clock;
pub mod critical;
mod directory;
mod disk;
pub mod memory;
mod overlay;
pub mod sim;
mod snapshot;

pub use clock::{Clock, SystemClock};
pub use directory::Directory;
pub use disk::{Disk, File};
pub use overlay::Overlay;
pub use snapshot::{Habit, Snapshot, is_gone};
