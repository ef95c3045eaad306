//! Hashes of canonical names, by source. Sources without a hash beside each other take no memory.

use super::name_hash::NameHash;
use crate::prefetch::prefetch;

/// Hashes per page.
const PAGE: usize = 1024;

/// Hashes of the sources of a page.
type Page = [NameHash; PAGE];

/// Hash of the canonical name of each source that has one in memory.
#[derive(Default)]
pub struct Canonical {
    /// Pages with their numbers of hashes. Pages without hashes are `None`.
    pages: Vec<(Option<Box<Page>>, u16)>,
    /// Number of hashes.
    names: u32,
    /// Number of pages with hashes.
    kept: usize,
}

impl Canonical {
    /// Returns a number above those of all sources with hashes.
    pub fn end(&self) -> u32 {
        (self.pages.len() * PAGE) as u32
    }

    /// Returns the number of hashes.
    pub fn names(&self) -> u32 {
        self.names
    }

    /// Returns the hash of a source, or [`NameHash::NONE`].
    #[inline]
    pub fn get(&self, source: u32) -> NameHash {
        match self.pages.get(source as usize / PAGE) {
            Some((Some(page), _)) => page[source as usize % PAGE],
            _ => NameHash::NONE,
        }
    }

    /// Prefetches the hash of a source.
    #[inline]
    pub fn prefetch(&self, source: u32) {
        if let Some((Some(page), _)) = self.pages.get(source as usize / PAGE) {
            prefetch(&page[source as usize % PAGE]);
        }
    }

    /// Sets the hash of a source that has none.
    pub fn insert(&mut self, source: u32, hash: NameHash) {
        let index = source as usize / PAGE;
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, || (None, 0));
        }
        let (page, used) = &mut self.pages[index];
        let page = page.get_or_insert_with(|| {
            self.kept += 1;
            Box::new([NameHash::NONE; PAGE])
        });
        page[source as usize % PAGE] = hash;
        *used += 1;
        self.names += 1;
    }

    /// Removes the hash of a source that has one.
    pub fn remove(&mut self, source: u32) {
        let (place, used) = &mut self.pages[source as usize / PAGE];
        let page = place.as_mut().expect("the source has a hash");
        page[source as usize % PAGE] = NameHash::NONE;
        self.names -= 1;
        *used -= 1;
        if *used == 0 {
            *place = None;
            self.kept -= 1;
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.kept * size_of::<Page>()
            + self.pages.capacity() * size_of::<(Option<Box<Page>>, u16)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_hashes_takes_no_memory() {
        const PAGE: u32 = super::PAGE as u32;
        let hash = |number: u32| NameHash([number, 1, 2]);
        let mut hashes = Canonical::default();
        for source in (0..10 * PAGE).chain([50 * PAGE]) {
            hashes.insert(source, hash(source));
        }
        assert_eq!((hashes.end(), hashes.names()), (51 * PAGE, 10 * PAGE + 1));
        assert_eq!(hashes.get(3 * PAGE + 7), hash(3 * PAGE + 7));
        assert_eq!(hashes.get(20 * PAGE), NameHash::NONE);
        assert_eq!(hashes.get(90 * PAGE), NameHash::NONE);
        let before = hashes.memory();
        (3 * PAGE..6 * PAGE + 1).for_each(|source| hashes.remove(source));
        assert_eq!(hashes.names(), 7 * PAGE);
        assert_eq!(before - hashes.memory(), 3 * size_of::<Page>());
        assert_eq!(hashes.get(5 * PAGE), NameHash::NONE);
        assert_eq!(hashes.get(6 * PAGE), NameHash::NONE);
        assert_eq!(hashes.get(6 * PAGE + 1), hash(6 * PAGE + 1));
        hashes.insert(5 * PAGE + 1, hash(9));
        assert_eq!(hashes.get(5 * PAGE + 1), hash(9));
        assert_eq!(hashes.get(5 * PAGE), NameHash::NONE);
    }
}
