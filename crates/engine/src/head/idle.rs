//! Idle sources: those that got no row for a while. Their names may leave memory.

use crate::dictionary::names::{Names, OTHER};
use roaring::RoaringBitmap;

/// Sources examined under one lock.
const SOURCES_A_LOCK: u32 = 32 << 10;
/// Names examined under one lock.
const NAMES_A_LOCK: u32 = 4 << 10;

/// Sources that began no block since they were added.
#[derive(Default)]
pub struct Idle {
    sources: RoaringBitmap,
}

impl Idle {
    /// Adds the sources from `cursor` on whose names are in memory. Returns the next cursor, unless all of the `known`
    /// sources were examined.
    pub fn add(&mut self, cursor: u32, known: u32, names: &Names) -> Option<u32> {
        let end = known.min(cursor.saturating_add(SOURCES_A_LOCK));
        let named = (cursor..end).filter(|source| names.has_canonical(*source));
        self.sources.extend(named);
        (end < known).then_some(end)
    }

    /// Returns the sources.
    pub fn sources(&self) -> &RoaringBitmap {
        &self.sources
    }

    /// Removes a source that is used.
    #[inline(always)]
    pub fn remove(&mut self, source: u32) {
        if !self.sources.is_empty() {
            self.sources.remove(source);
        }
    }

    /// Removes all sources.
    pub fn clear(&mut self) {
        self.sources = RoaringBitmap::new();
    }

    /// Lists names of the sources, as pairs of source and number, from the number `cursor` on. Returns the next cursor,
    /// unless all names were listed.
    pub fn list(&self, cursor: u32, names: &Names, found: &mut Vec<(u32, u32)>) -> Option<u32> {
        if cursor >= OTHER {
            return names.list(cursor, NAMES_A_LOCK, &self.sources, found);
        }
        // Most numbers may be those of dormant sources.
        let mut sources = self.sources.range(cursor..);
        let some = sources.by_ref().take(NAMES_A_LOCK as usize);
        found.extend(some.map(|source| (source, source)));
        sources.next()
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.sources.serialized_size()
    }
}
