//! Hash maps and hash sets with a fixed hasher, so that the order of their entries is the same in every run.
//!
//! Their keys are numbers and names of this store. Names that clients send are in the dictionary, whose hasher has a
//! secret key.

#![allow(clippy::disallowed_types, reason = "the hasher is fixed")]

use foldhash::fast::FixedState;

/// Hash map with a fixed hasher.
pub type HashMap<K, V> = std::collections::HashMap<K, V, FixedState>;
/// Hash set with a fixed hasher.
pub type HashSet<K> = std::collections::HashSet<K, FixedState>;
