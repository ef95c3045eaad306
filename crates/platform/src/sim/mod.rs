//! A simulated disk and a simulated clock, deterministic from a seed and able to inject faults.
//!
//! [`SimDisk`] keeps two images of each file: the *live* image, which a program sees, and the *durable* image
//! on the platter. A power cut leaves the durable image plus a combination of unsynced changes that the seed
//! chooses. This module does not depend on the contents of files.

mod clock;
mod disk;
mod faults;
mod image;
mod names;

pub use clock::SimClock;
pub use disk::SimDisk;
pub use faults::{Chance, Faults};
pub use seiner_random::Rng;
