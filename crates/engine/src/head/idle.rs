//! Idle sources: filed sources that got no row for a while. Their names may leave memory.

use crate::dictionary::Dictionary;
use crate::dictionary::names::{Names, OTHER};
use roaring::RoaringBitmap;

/// Sources examined under one lock.
const SOURCES_A_LOCK: u32 = 32 << 10;
/// Names examined under one lock.
const NAMES_A_LOCK: u32 = 4 << 10;

/// Filed sources that began no block since they were added.
#[derive(Default)]
pub struct Idle {
    sources: RoaringBitmap,
}

impl Idle {
    /// Adds the filed sources from `cursor` on whose names are in memory. Returns the next cursor, unless all sources were
    /// examined.
    pub fn add(&mut self, cursor: u32, dictionary: &Dictionary, names: &Names) -> Option<u32> {
        let known = dictionary.len() as u32;
        let end = known.min(cursor.saturating_add(SOURCES_A_LOCK));
        let filed = dictionary.filed().sources().range(cursor..end);
        let named = filed.filter(|source| names.has_canonical(*source));
        self.sources.extend(named);
        (end < known).then_some(end)
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

    /// Removes names of the sources, from the number `cursor` on, if `is_idle` holds for their open blocks. Returns the
    /// next cursor, unless all names were examined.
    pub fn remove_names(
        &self,
        cursor: u32,
        filed: &RoaringBitmap,
        is_idle: impl Fn(u32) -> bool,
        names: &mut Names,
    ) -> Option<u32> {
        let mut found = Vec::new();
        let next = match cursor < OTHER {
            true => self.list_canonical(cursor, names, &mut found),
            false => names.list(cursor, NAMES_A_LOCK, &self.sources, &mut found),
        };
        for (source, number) in found {
            // A source may have left its file meanwhile.
            if filed.contains(source) && is_idle(source) {
                names.remove(number);
            }
        }
        next
    }

    /// Lists canonical names as [`Names::list`] does. Passes over numbers without idle sources.
    fn list_canonical(
        &self,
        cursor: u32,
        names: &Names,
        found: &mut Vec<(u32, u32)>,
    ) -> Option<u32> {
        let mut sources = self.sources.range(cursor..);
        let some = sources.by_ref().take(NAMES_A_LOCK as usize);
        let named = some.filter(|source| names.has_canonical(*source));
        found.extend(named.map(|source| (source, source)));
        sources.next()
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.sources.serialized_size()
    }
}
