//! Sources that only other ports know.

use crate::locks::locked;
use seiner_model::SourceKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Numbers of sources that only other ports know, and that no handover has named yet.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<BTreeMap<Arc<SourceKey>, u32>>);

impl Numbers {
    /// Returns the number of a source: from the top downwards, so that it differs from all others.
    pub fn of(&self, key: &Arc<SourceKey>) -> u32 {
        let mut numbers = locked(&self.0);
        let next = u32::MAX - numbers.len() as u32;
        *numbers.entry(key.clone()).or_insert(next)
    }

    /// Returns the source with a number.
    pub fn key(&self, number: u32) -> Option<Arc<SourceKey>> {
        let numbers = locked(&self.0);
        let mut found = numbers.iter().filter(|(_, other)| **other == number);
        found.next().map(|(key, _)| key.clone())
    }
}
