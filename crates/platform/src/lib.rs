//! The outside world, behind traits: everything that is not deterministic comes in here.
//!
//! [`Disk`] and [`File`] are a flat directory of named files, [`Clock`] tells the time. Each has
//! a real implementation and a simulated one, which runs from a seed and can fail on purpose.

mod clock;
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
