//! Chunks of bundles that were read recently: their rows, or what a query found in them.

use super::Header;
use crate::segment::Entry;
use seiner_bundle::ChunkRows;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Identity of a bundle: its segment, and its offset in it. A segment number is never used again.
pub type Key = (u64, u32);

/// Chunks of a bundle among which the one of a source is searched without the bundle's directory. Chunks with other
/// fields have sources with numbers in between.
const NEAR: usize = 32;

/// Decoded rows of a chunk.
pub struct Chunk {
    /// Header of the chunk's bundle.
    pub header: Header,
    /// Rows of some sources.
    pub rows: ChunkRows,
}

impl Chunk {
    /// Returns the index of a source in the chunk; `None` if it has no rows there.
    pub fn index(&self, id: u64) -> Option<usize> {
        self.rows.ids().binary_search(&id).ok()
    }

    /// Checks that a source's rows are those of a block.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn check(&self, source: usize, entry: &Entry) -> Result<(), String> {
        let times = self.rows.times(source);
        let span = times.first().copied().zip(times.last().copied());
        self.header
            .check(entry, times.len(), span.unwrap_or_default())
    }
}

impl Kept for Chunk {
    fn ids(&self) -> &[u64] {
        self.rows.ids()
    }

    fn memory(&self) -> usize {
        size_of::<Chunk>() + self.rows.memory()
    }
}

/// Part of a chunk that a cache keeps.
pub trait Kept {
    /// Returns the numbers of the chunk's sources, ascending.
    fn ids(&self) -> &[u64];

    /// Returns the memory in bytes.
    fn memory(&self) -> usize;
}

/// Chunks that queries share.
pub struct SharedChunks<T> {
    chunks: Mutex<Chunks<T>>,
    /// [`Chunks::bytes`], for readers that must not wait.
    bytes: AtomicUsize,
}

impl<T: Kept> SharedChunks<T> {
    /// Creates a cache without chunks, with a limit of their memory in bytes.
    pub fn new(limit: usize) -> SharedChunks<T> {
        SharedChunks {
            chunks: Mutex::new(Chunks::new(limit)),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the memory of the chunks in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the chunk of a bundle that has rows of a source.
    pub fn find(&self, key: Key, id: u64) -> Option<Arc<T>> {
        lock(&self.chunks).find(key, id)
    }

    /// Returns the chunk of a bundle that begins with a source.
    pub fn get(&self, key: Key, first: u64) -> Option<Arc<T>> {
        let chunks = lock(&self.chunks);
        chunks
            .kept
            .get(&(key, first))
            .map(|kept| kept.chunk.clone())
    }

    /// Adds a chunk, as [`Chunks::keep`] does.
    pub fn keep(&self, key: Key, chunk: Arc<T>) {
        let mut chunks = lock(&self.chunks);
        chunks.keep(key, chunk);
        self.bytes.store(chunks.bytes(), Ordering::Relaxed);
    }

    /// Removes all chunks.
    pub fn clear(&self) {
        let mut chunks = lock(&self.chunks);
        *chunks = Chunks::new(chunks.limit);
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// Locks a part of the cache.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves a valid cache.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chunks by bundle and first source. If they use too much memory, those leave first that were not used since they
/// came or since the last look at them.
struct Chunks<T> {
    kept: BTreeMap<(Key, u64), Place<T>>,
    /// Chunks in the order in which they will be looked at.
    order: VecDeque<(Key, u64)>,
    bytes: usize,
    /// Memory that the chunks may use, bytes. The youngest one stays in any case.
    limit: usize,
}

struct Place<T> {
    chunk: Arc<T>,
    is_used: bool,
}

impl<T: Kept> Chunks<T> {
    /// Creates a cache without chunks.
    fn new(limit: usize) -> Chunks<T> {
        Chunks {
            kept: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            limit,
        }
    }

    /// Returns the memory of the chunks in bytes.
    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the chunk of a bundle that has rows of a source.
    fn find(&mut self, key: Key, id: u64) -> Option<Arc<T>> {
        let before = self.kept.range_mut((key, 0)..=(key, id)).rev();
        let mut near = before.take(NEAR).map(|(_, kept)| kept);
        let kept = near.find(|kept| kept.chunk.ids().binary_search(&id).is_ok())?;
        kept.is_used = true;
        Some(kept.chunk.clone())
    }

    /// Adds a chunk, and removes others before until the limit will be met.
    fn keep(&mut self, key: Key, chunk: Arc<T>) {
        let Some(&first) = chunk.ids().first() else {
            return;
        };
        let bytes = chunk.memory();
        while self.bytes + bytes > self.limit && !self.order.is_empty() {
            self.remove_one();
        }
        self.bytes += bytes;
        let kept = Place {
            chunk,
            is_used: false,
        };
        match self.kept.insert((key, first), kept) {
            // Two threads decoded it.
            Some(same) => self.bytes -= same.chunk.memory(),
            None => self.order.push_back((key, first)),
        }
    }

    /// Looks at the next chunk: removes it, or leaves it until its next turn if it was used.
    fn remove_one(&mut self) {
        let Some(next) = self.order.pop_front() else {
            return;
        };
        match self.kept.get_mut(&next) {
            Some(kept) if kept.is_used => {
                kept.is_used = false;
                self.order.push_back(next);
            }
            _ => {
                let gone = self.kept.remove(&next);
                self.bytes -= gone.map_or(0, |kept| kept.chunk.memory());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_bundle::{BundleWriter, Directory, Layout, Options};
    use seiner_model::Columns;

    /// Returns a chunk of some sources with a row each and no fields.
    fn chunk(ids: std::ops::Range<u64>) -> Arc<Chunk> {
        let mut writer = BundleWriter::new(Options::default());
        let layout = Arc::new(Layout::new::<&str>([]));
        for id in ids {
            let rows = Columns {
                times: vec![7],
                fields: Vec::new(),
            };
            writer.push(id, &layout, &rows).unwrap();
        }
        let bundle = writer.finish();
        let directory = Directory::parse(&bundle.directory).unwrap();
        let header = Header {
            first_block: 0,
            last_block: 9,
            directory: 0,
            data: 0,
        };
        Arc::new(Chunk {
            header,
            rows: directory.decode_chunk(0, &bundle.data).unwrap(),
        })
    }

    #[test]
    fn a_chunk_is_found_by_each_of_its_sources_and_no_other() {
        let mut chunks = Chunks::new(1 << 20);
        chunks.keep((1, 0), chunk(10..20));
        chunks.keep((1, 0), chunk(30..40));
        chunks.keep((1, 4096), chunk(20..30));
        for id in 0..50 {
            let found = chunks.find((1, 0), id);
            let found = found.map(|chunk| chunk.rows.ids()[0]);
            let expected = match id {
                10..20 => Some(10),
                30..40 => Some(30),
                _ => None,
            };
            assert_eq!(found, expected, "source {id}");
        }
        assert!(chunks.find((2, 0), 15).is_none());
        // Chunks with other fields.
        chunks.keep((1, 0), chunk(35..36));
        chunks.keep((1, 0), chunk(36..37));
        assert_eq!(chunks.find((1, 0), 38).unwrap().rows.ids()[0], 30);
        assert_eq!(chunks.find((1, 0), 36).unwrap().rows.ids()[0], 36);
    }

    #[test]
    fn unused_chunks_leave_first_and_the_memory_is_bounded() {
        let bytes = chunk(0..10).memory();
        let mut chunks = Chunks::new(bytes * 10);
        for offset in 0..10 {
            chunks.keep((1, offset), chunk(0..10));
        }
        assert!(chunks.find((1, 3), 5).is_some());
        for offset in 10..18 {
            chunks.keep((1, offset), chunk(0..10));
            assert_eq!(chunks.bytes(), bytes * 10);
        }
        assert!(chunks.find((1, 3), 5).is_some(), "it was used");
        assert!(chunks.find((1, 4), 5).is_none());
        chunks.keep((1, 17), chunk(0..10));
        assert!(chunks.bytes() <= bytes * 10, "the same chunk again");
        assert_eq!(chunks.order.len(), chunks.kept.len());
    }

    #[test]
    fn the_youngest_chunk_stays_even_if_it_is_too_large() {
        let mut chunks = Chunks::new(1);
        chunks.keep((1, 0), chunk(0..10));
        assert!(chunks.find((1, 0), 0).is_some());
        chunks.keep((1, 1), chunk(0..10));
        assert!(chunks.find((1, 0), 0).is_none());
        assert!(chunks.find((1, 1), 0).is_some());
    }
}
