//! Names of the series that a target or a rule has, so that those that vanish are found and ended.

use seiner_wire::otlp::STALE;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Value that ends a series.
pub const STALE_MARKER: f64 = f64::from_bits(STALE);
/// Bytes that a name takes besides its text, approximately.
const ENTRY_BYTES: usize = 48;

/// Memory for the names of all targets and rules.
#[derive(Debug, Default)]
pub struct NameMemory {
    used: AtomicUsize,
    limit: usize,
}

impl NameMemory {
    /// Creates the memory with a limit in bytes.
    pub fn new(limit: usize) -> NameMemory {
        NameMemory {
            used: AtomicUsize::new(0),
            limit,
        }
    }

    fn reserve(&self, bytes: usize) -> bool {
        let after = self.used.fetch_add(bytes, Relaxed) + bytes;
        let fits = after <= self.limit;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// Result of noting a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Noted {
    /// The name is present in this round.
    Present,
    /// The name was present in this round before.
    Repeated,
    /// There is no memory for another name.
    Full,
}

/// Series of a target or rule, by their names. Each scrape or evaluation is a round.
#[derive(Debug)]
pub struct KnownSeries {
    /// Number of the last round with the series.
    names: HashMap<Box<[u8]>, u64>,
    round: u64,
    memory: Arc<NameMemory>,
}

impl KnownSeries {
    /// Creates an empty list.
    pub fn new(memory: Arc<NameMemory>) -> KnownSeries {
        KnownSeries {
            names: HashMap::new(),
            round: 0,
            memory,
        }
    }

    /// Begins a round.
    pub fn begin(&mut self) {
        self.round += 1;
    }

    /// Notes a series of this round.
    pub fn note(&mut self, name: &[u8]) -> Noted {
        if let Some(last) = self.names.get_mut(name) {
            return match std::mem::replace(last, self.round) == self.round {
                true => Noted::Repeated,
                false => Noted::Present,
            };
        }
        if !self.memory.reserve(name.len() + ENTRY_BYTES) {
            return Noted::Full;
        }
        self.names.insert(name.into(), self.round);
        Noted::Present
    }

    /// Removes the series that this round does not have, and returns their names.
    pub fn take_vanished(&mut self) -> Vec<Box<[u8]>> {
        let round = self.round;
        let vanished = self.names.extract_if(|_, last| *last != round);
        let vanished: Vec<Box<[u8]>> = vanished.map(|(name, _)| name).collect();
        self.memory.release(bytes(vanished.iter()));
        vanished
    }
}

impl Drop for KnownSeries {
    fn drop(&mut self) {
        self.memory.release(bytes(self.names.keys()));
    }
}

fn bytes<'n>(names: impl Iterator<Item = &'n Box<[u8]>>) -> usize {
    names.map(|name| name.len() + ENTRY_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vanished_series_release_their_memory() {
        let memory = Arc::new(NameMemory::new(2 * (ENTRY_BYTES + 1)));
        let mut known = KnownSeries::new(memory.clone());
        known.begin();
        assert_eq!(known.note(b"a"), Noted::Present);
        assert_eq!(known.note(b"a"), Noted::Repeated);
        assert_eq!(known.note(b"b"), Noted::Present);
        assert_eq!(known.note(b"c"), Noted::Full);
        assert!(known.take_vanished().is_empty());
        known.begin();
        assert_eq!(known.note(b"b"), Noted::Present);
        assert_eq!(known.take_vanished(), [Box::from(&b"a"[..])]);
        assert_eq!(known.note(b"c"), Noted::Present);
        drop(known);
        assert_eq!(memory.used.load(Relaxed), 0);
    }
}
