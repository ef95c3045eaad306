//! Cache of decompressed pages, with a limit in bytes.
//!
//! Evicts by the clock algorithm: a page that was used since the hand passed stays for another round.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// A decompressed page.
pub type Page = Arc<Vec<u8>>;
/// Number of an open file, and offset of a page.
pub type PageId = (u64, u64);

/// Maximum number of parts that threads use independently.
const SHARDS: usize = 8;
/// Minimum bytes of a part. Smaller ones would evict pages that are in use.
const SHARD_BYTES: usize = 1 << 20;
/// Bytes of a page besides its contents.
const PAGE_COST: usize = 128;

/// Decompressed pages of several files.
pub struct PageCache {
    shards: Vec<Mutex<Shard>>,
    /// Maximum bytes of a shard.
    limit: usize,
}

#[derive(Default)]
struct Shard {
    slots: Vec<Slot>,
    /// Indices of the slots.
    index: HashMap<PageId, usize, FixedState>,
    hand: usize,
    bytes: usize,
}

struct Slot {
    id: PageId,
    page: Page,
    used: bool,
}

impl PageCache {
    /// Creates an empty cache of at most `bytes` bytes.
    pub fn new(bytes: usize) -> PageCache {
        let count = (bytes / SHARD_BYTES).clamp(1, SHARDS);
        PageCache {
            shards: (0..count).map(|_| Mutex::default()).collect(),
            limit: bytes / count,
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    /// Removes the pages of the file with a number.
    pub fn forget(&self, file: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let mut at = 0;
            while at < shard.slots.len() {
                match shard.slots[at].id.0 == file {
                    true => shard.remove(at),
                    false => at += 1,
                }
            }
        }
    }

    /// Returns a page, if the cache has it.
    pub fn get(&self, id: PageId) -> Option<Page> {
        let mut shard = self.shard(id).lock();
        let at = *shard.index.get(&id)?;
        let slot = &mut shard.slots[at];
        slot.used = true;
        Some(slot.page.clone())
    }

    /// Adds a page.
    pub fn insert(&self, id: PageId, page: &Page) {
        let cost = page.len() + PAGE_COST;
        if cost > self.limit {
            return;
        }
        let mut shard = self.shard(id).lock();
        if shard.index.contains_key(&id) {
            return;
        }
        while shard.bytes + cost > self.limit {
            shard.evict();
        }
        let at = shard.slots.len();
        shard.bytes += cost;
        shard.index.insert(id, at);
        shard.slots.push(Slot {
            id,
            page: page.clone(),
            used: false,
        });
    }

    /// Returns the shard of a page. The number of the file has no effect: it depends on the files that were opened
    /// before, and a simulation repeats its reads.
    fn shard(&self, id: PageId) -> &Mutex<Shard> {
        let mixed = id.1.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[mixed as usize % self.shards.len()]
    }
}

impl Shard {
    /// Removes the next page that was not used since the hand passed. There is a page.
    fn evict(&mut self) {
        loop {
            self.hand %= self.slots.len();
            if !std::mem::take(&mut self.slots[self.hand].used) {
                return self.remove(self.hand);
            }
            self.hand += 1;
        }
    }

    /// Removes the page of a slot. The last slot takes its place.
    fn remove(&mut self, at: usize) {
        let slot = self.slots.swap_remove(at);
        self.index.remove(&slot.id);
        self.bytes -= slot.page.len() + PAGE_COST;
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.id, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_keeps_used_pages_and_its_limit() {
        let cache = PageCache::new(10 * 1128);
        let page = Arc::new(vec![0; 1000]);
        for n in 0..100 {
            cache.insert((1, n), &page);
            cache.insert((1, n), &page);
            assert!(cache.get((1, 0)).is_some(), "{n}");
            assert!(cache.memory() <= 10 * 1128);
        }
        assert_eq!(cache.memory(), 10 * 1128);
        cache.insert((1, 100), &Arc::new(vec![0; 20_000]));
        assert!(cache.get((1, 100)).is_none() && cache.get((2, 0)).is_none());
        let none = PageCache::new(0);
        none.insert((1, 0), &page);
        assert_eq!(none.memory(), 0);
    }
}
