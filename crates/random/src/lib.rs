//! Pseudo-random numbers for simulations, experiments and benchmarks.
//!
//! Invariant: all numbers follow from the seed alone, on every platform. A recorded seed repeats its run, so the
//! sequence of a generator and the number of draws of a method never change.
//!
//! The crate imports nothing, so that `seiner-platform` and the pure crate `seiner-merge` can both use this crate.
//! The numbers are not for cryptography.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod rng;
mod source;

pub use rng::{Rng, SeededRng, SplitMixRng};
pub use source::{Source, SplitMix64, Xoshiro256PlusPlus};
