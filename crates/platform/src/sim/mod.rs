//! A simulated disk and clock: deterministic from a seed, and able to fail on purpose.
//!
//! [`SimDisk`] keeps what a program sees (*live*) apart from what has reached the platter
//! (*durable*). A power cut leaves the durable image and, of everything that was not synced, a
//! mixture chosen by the seed. Nothing here knows what is stored.

mod clock;
mod disk;
mod faults;
mod image;
mod names;
mod rng;

pub use clock::SimClock;
pub use disk::SimDisk;
pub use faults::{Chance, Faults};
pub use rng::SimRng;
