//! Cache of bundles that were read: their directories, with the chunk that was decoded last.
//!
//! Sources with neighbouring numbers are in the same chunk, and most readers read sources in order.
//! Each chunk is then decoded once.

use super::Header;
use crate::error::Error;
use crate::query::snapshot::BlockLocation;
use crate::segment::Entry;
use seiner_bundle::{ChunkRows, Directory, SourceRows};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are read first: the header, and most directories.
const FIRST_READ: u64 = 4096;
/// Maximum number of bundles.
const BUNDLES: usize = 64;
/// Fraction of the store's memory, and bounds of it.
const SHARE: u64 = 16;
const BYTES: (u64, u64) = (512 << 10, 32 << 20);

/// Identity of a bundle: its segment, and its offset in it. A segment number is never used again.
type Key = (u64, u32);

/// Bundles that were read recently.
pub(crate) struct BundleCache {
    /// Bundles, the most recently used last.
    bundles: Mutex<Vec<(Key, Arc<OpenBundle>)>>,
    /// Memory that the bundles may use, bytes.
    limit: usize,
    bytes: AtomicUsize,
}

/// Bundle whose directory was read.
struct OpenBundle {
    header: Header,
    directory: Directory,
    /// Chunk that was decoded last, with its index.
    latest: Mutex<Option<(usize, Arc<ChunkRows>)>>,
}

/// Chunk that a reader used last. A reader of neighbouring sources needs no lock to find the next.
#[derive(Default)]
pub(crate) struct LastChunk(Option<(Key, Arc<OpenBundle>, Arc<ChunkRows>)>);

impl LastChunk {
    /// Returns the index of a source in the chunk; `None` if this is not the source's chunk.
    fn index(&self, key: Key, id: u64) -> Option<usize> {
        let (known, _, chunk) = self.0.as_ref()?;
        match *known == key {
            true => chunk.ids().binary_search(&id).ok(),
            false => None,
        }
    }
}

impl BundleCache {
    /// Creates the cache of a store with this memory, in bytes.
    pub fn new(memory: u64) -> BundleCache {
        BundleCache {
            bundles: Mutex::default(),
            limit: (memory / SHARE).clamp(BYTES.0, BYTES.1) as usize,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the memory of the bundles in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Removes all bundles.
    pub fn clear(&self) {
        let mut bundles = lock(&self.bundles);
        *bundles = Vec::new();
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Returns the rows of a block in a bundle.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Damage`].
    pub fn rows(&self, entry: &Entry, place: &BlockLocation) -> Result<SourceRows, Error> {
        let mut last = LastChunk::default();
        let (chunk, source) = self.find(entry, place, &mut last)?;
        Ok(chunk.source(source))
    }

    /// Returns the chunk that contains a block in a bundle, and the index of the block's source in the chunk.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Damage`].
    pub fn find<'l>(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        last: &'l mut LastChunk,
    ) -> Result<(&'l ChunkRows, usize), Error> {
        let (key, id) = ((place.segment(), entry.offset), u64::from(entry.source));
        let found = match last.index(key, id) {
            Some(found) => Some(found),
            None => self.open_chunk(key, entry, place, last)?,
        };
        let (Some(source), Some((_, bundle, chunk))) = (found, &last.0) else {
            let what = format!("the bundle has no rows of source {}", entry.source);
            return Err(place.damage(entry, what));
        };
        let numbers = bundle.header.first_block..=bundle.header.last_block;
        if !numbers.contains(&entry.number) {
            let what = format!(
                "the bundle has the blocks {numbers:?}, not {}",
                entry.number
            );
            return Err(place.damage(entry, what));
        }
        let times = chunk.times(source);
        let span = times.first().copied().zip(times.last().copied());
        if (times.len(), span) != (entry.rows as usize, Some((entry.first, entry.last))) {
            let what = format!(
                "source {} has {} rows in the bundle, the footer lists {}, or other times",
                entry.source,
                times.len(),
                entry.rows
            );
            return Err(place.damage(entry, what));
        }
        Ok((chunk, source))
    }

    /// Opens the chunk that contains the source of a block, and returns the index of the source in the chunk.
    fn open_chunk(
        &self,
        key: Key,
        entry: &Entry,
        place: &BlockLocation,
        last: &mut LastChunk,
    ) -> Result<Option<usize>, Error> {
        let id = u64::from(entry.source);
        let bundle = self.bundle(key, entry, place)?;
        for chunk in bundle.directory.find(id) {
            let chunk = bundle.chunk(chunk.index, entry, place)?;
            if let Ok(source) = chunk.ids().binary_search(&id) {
                last.0 = Some((key, bundle.clone(), chunk));
                return Ok(Some(source));
            }
        }
        Ok(None)
    }

    /// Returns a bundle from the cache, or reads its directory.
    fn bundle(
        &self,
        key: Key,
        entry: &Entry,
        place: &BlockLocation,
    ) -> Result<Arc<OpenBundle>, Error> {
        if let Some(found) = self.cached(key) {
            return Ok(found);
        }
        let bundle = Arc::new(open(entry, place)?);
        self.keep(key, bundle.clone());
        Ok(bundle)
    }

    fn cached(&self, key: Key) -> Option<Arc<OpenBundle>> {
        let mut bundles = lock(&self.bundles);
        let at = bundles.iter().rposition(|(known, _)| *known == key)?;
        let found = bundles.remove(at);
        let bundle = found.1.clone();
        bundles.push(found);
        Some(bundle)
    }

    /// Adds a bundle, and removes those that were not used for the longest time.
    fn keep(&self, key: Key, bundle: Arc<OpenBundle>) {
        let mut bundles = lock(&self.bundles);
        bundles.retain(|(known, _)| *known != key);
        bundles.push((key, bundle));
        let mut bytes: usize = bundles.iter().map(|(_, bundle)| bundle.memory()).sum();
        let mut gone = 0;
        while gone + 1 < bundles.len() && (bytes > self.limit || bundles.len() - gone > BUNDLES) {
            bytes -= bundles[gone].1.memory().min(bytes);
            gone += 1;
        }
        bundles.drain(..gone);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

impl OpenBundle {
    fn memory(&self) -> usize {
        let latest = lock(&self.latest);
        let chunk = latest.as_ref().map_or(0, |(_, rows)| rows.memory());
        size_of::<OpenBundle>() + self.directory.memory() + chunk
    }

    /// Returns the rows of a chunk: those decoded last, or read and decoded.
    fn chunk(
        &self,
        index: usize,
        entry: &Entry,
        place: &BlockLocation,
    ) -> Result<Arc<ChunkRows>, Error> {
        if let Some((known, rows)) = &*lock(&self.latest)
            && *known == index
        {
            return Ok(rows.clone());
        }
        let chunk = self.directory.chunks().nth(index);
        let chunk = chunk.expect("the directory named the chunk");
        let data = self.header.directory_range().end;
        let range = data + chunk.start as u64..data + chunk.end as u64;
        let bytes = place.read_part(entry, range)?;
        let rows = self.directory.decode_chunk(index, &bytes);
        let rows = Arc::new(rows.map_err(|error| place.damage(entry, error.to_string()))?);
        *lock(&self.latest) = Some((index, rows.clone()));
        Ok(rows)
    }
}

/// Reads the header and the directory of the bundle that contains a block.
fn open(entry: &Entry, place: &BlockLocation) -> Result<OpenBundle, Error> {
    let damage = |what| place.damage(entry, what);
    let len = entry.extent().1;
    let mut bytes = place.read_part(entry, 0..FIRST_READ.min(len))?;
    let header = Header::decode(&bytes, len).map_err(damage)?;
    let range = header.directory_range();
    if range.end > bytes.len() as u64 {
        bytes.extend(place.read_part(entry, bytes.len() as u64..range.end)?);
    }
    let directory = header.parse_directory(&bytes).map_err(damage)?;
    Ok(OpenBundle {
        header,
        directory,
        latest: Mutex::default(),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves a valid cache.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
