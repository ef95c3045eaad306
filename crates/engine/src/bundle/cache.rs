//! Cache of bundles that were read: their directories, and the chunks that were decoded.
//!
//! Sources with neighbouring numbers are in the same chunk, and queries often read neighbours: the sensors of a host.
//! A chunk is then decoded once for all of them, even if the query reads many bundles for each source.

use super::Header;
use super::chunks::{Chunk, Key, SharedChunks, lock};
use super::summaries::ChunkSummaries;
use crate::dictionary::layouts::Layout;
use crate::error::Error;
use crate::query::snapshot::BlockLocation;
use crate::segment::Entry;
use seiner_bundle::{ChunkInfo, ChunkRows, Directory, SourceRows};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes that are read first: the header, and most directories.
const FIRST_READ: u64 = 4096;
/// Maximum number of bundles.
const BUNDLES: usize = 64;
/// Fraction of the store's memory, and bounds of it.
const SHARE: u64 = 16;
const BYTES: (u64, u64) = (512 << 10, 32 << 20);

/// Bundles that were read recently.
pub(crate) struct BundleCache {
    /// Bundles, the most recently used last.
    bundles: Mutex<Vec<(Key, Arc<OpenBundle>)>>,
    bundle_bytes: AtomicUsize,
    /// Memory that the bundles may use without the chunks, bytes.
    limit: usize,
    chunks: SharedChunks<Chunk>,
    summaries: SharedChunks<ChunkSummaries>,
}

/// Bundle whose directory was read.
struct OpenBundle {
    header: Header,
    directory: Directory,
}

/// Chunk that a reader used last. A reader of neighbouring sources needs no lock to find the next.
#[derive(Default)]
pub(crate) struct LastChunk(Option<(Key, Arc<Chunk>)>);

impl LastChunk {
    /// Returns the index of a source in the chunk; `None` if this is not the source's chunk.
    fn index(&self, key: Key, id: u64) -> Option<usize> {
        let (_, chunk) = self.0.as_ref().filter(|(known, _)| *known == key)?;
        chunk.index(id)
    }
}

impl BundleCache {
    /// Creates the cache of a store with this memory, in bytes.
    pub fn new(memory: u64) -> BundleCache {
        let limit = (memory / SHARE).clamp(BYTES.0, BYTES.1) as usize;
        BundleCache {
            bundles: Mutex::default(),
            bundle_bytes: AtomicUsize::new(0),
            limit: limit / 2,
            chunks: SharedChunks::new(limit / 8 * 3),
            summaries: SharedChunks::new(limit / 8),
        }
    }

    /// Returns the memory of the bundles in bytes.
    pub fn bytes(&self) -> usize {
        let bundles = self.bundle_bytes.load(Ordering::Relaxed);
        bundles + self.chunks.bytes() + self.summaries.bytes()
    }

    /// Removes all bundles.
    pub fn clear(&self) {
        *lock(&self.bundles) = Vec::new();
        self.bundle_bytes.store(0, Ordering::Relaxed);
        self.chunks.clear();
        self.summaries.clear();
    }

    /// Returns the rows of a block in a bundle, which probably has a layout.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Damage`].
    pub fn rows(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        likely: Option<&Layout>,
    ) -> Result<SourceRows, Error> {
        let mut last = LastChunk::default();
        let (chunk, source) = self.find(entry, place, likely, &mut last)?;
        Ok(chunk.source(source))
    }

    /// Returns the aggregates of the blocks in the chunk that contains a block in a bundle, which probably has a layout.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Damage`].
    pub fn summaries(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        likely: Option<&Layout>,
    ) -> Result<Arc<ChunkSummaries>, Error> {
        let (key, id) = ((place.segment(), entry.offset), u64::from(entry.source));
        if let Some(found) = self.summaries.find(key, id) {
            return Ok(found);
        }
        let mut last = LastChunk::default();
        self.find(entry, place, likely, &mut last)?;
        let chunk = last.0.expect("the chunk of the block was found").1;
        let made = Arc::new(ChunkSummaries::of(&chunk));
        self.summaries.keep(key, made.clone());
        Ok(made)
    }

    /// Returns the chunk that contains a block in a bundle, and the index of the block's source in the chunk. The block
    /// probably has a layout.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Damage`].
    pub fn find<'l>(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        likely: Option<&Layout>,
        last: &'l mut LastChunk,
    ) -> Result<(&'l ChunkRows, usize), Error> {
        let (key, id) = ((place.segment(), entry.offset), u64::from(entry.source));
        let found = match last.index(key, id) {
            Some(found) => Some(found),
            None => self.open_chunk(key, entry, place, likely, last)?,
        };
        let (Some(source), Some((_, chunk))) = (found, &last.0) else {
            let what = format!("the bundle has no rows of source {}", entry.source);
            return Err(place.damage(entry, what));
        };
        let checked = chunk.check(source, entry);
        checked.map_err(|what| place.damage(entry, what))?;
        Ok((&chunk.rows, source))
    }

    /// Opens the chunk that contains the source of a block, and returns the index of the source in the chunk.
    fn open_chunk(
        &self,
        key: Key,
        entry: &Entry,
        place: &BlockLocation,
        likely: Option<&Layout>,
        last: &mut LastChunk,
    ) -> Result<Option<usize>, Error> {
        let id = u64::from(entry.source);
        let chunk = match self.chunks.find(key, id) {
            Some(chunk) => Some(chunk),
            None => self.decode(key, entry, place, likely)?,
        };
        let index = chunk.as_ref().and_then(|chunk| chunk.index(id));
        if let Some(chunk) = chunk {
            last.0 = Some((key, chunk));
        }
        Ok(index)
    }

    /// Decodes the chunk that contains the source of a block, if there is one. Keeps it, and others that were decoded to
    /// find it: their sources have numbers in between. Chunks with the layout that the block probably has are decoded first.
    fn decode(
        &self,
        key: Key,
        entry: &Entry,
        place: &BlockLocation,
        likely: Option<&Layout>,
    ) -> Result<Option<Arc<Chunk>>, Error> {
        let id = u64::from(entry.source);
        let bundle = self.bundle(key, entry, place)?;
        let mut chunks: Vec<ChunkInfo> = bundle.directory.find(id).collect();
        chunks.sort_by_key(|chunk| {
            let layout = bundle.directory.layout_of(chunk);
            !likely.is_some_and(|likely| likely.is_in_bundle(layout))
        });
        let mut damage = Ok(None);
        for chunk in chunks {
            let kept = self.chunks.get(key, chunk.first_id);
            let found = match kept.map_or_else(|| bundle.chunk(chunk.index, entry, place), Ok) {
                Ok(found) => found,
                // The rows may be in a chunk with other fields.
                Err(error @ Error::Damage { .. }) => {
                    damage = Err(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.chunks.keep(key, found.clone());
            if found.index(id).is_some() {
                return Ok(Some(found));
            }
        }
        damage
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
        self.bundle_bytes.store(bytes, Ordering::Relaxed);
    }
}

impl OpenBundle {
    fn memory(&self) -> usize {
        size_of::<OpenBundle>() + self.directory.memory()
    }

    /// Reads and decodes a chunk.
    fn chunk(
        &self,
        index: usize,
        entry: &Entry,
        place: &BlockLocation,
    ) -> Result<Arc<Chunk>, Error> {
        let chunk = self.directory.chunks().nth(index);
        let chunk = chunk.expect("the directory named the chunk");
        let data = self.header.directory_range().end;
        let range = data + chunk.start as u64..data + chunk.end as u64;
        let bytes = place.read_part(entry, range)?;
        let rows = self.directory.decode_chunk(index, &bytes);
        Ok(Arc::new(Chunk {
            header: self.header,
            rows: rows.map_err(|error| place.damage(entry, error.to_string()))?,
        }))
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
    Ok(OpenBundle { header, directory })
}

#[cfg(test)]
mod tests {
    use crate::answer::Query;
    use crate::jobs::testing::{World, options};
    use crate::query::scan;
    use seiner_model::{Interval, Selector};
    use seiner_platform::Disk;

    const FIELDS: [&str; 2] = ["v", "w"];

    /// Returns the number of sources with one of the fields that can be read.
    fn readable(world: &World) -> [usize; 2] {
        FIELDS.map(|field| {
            let query = Query {
                selector: Selector::parse(field).unwrap(),
                fields: None,
                interval: Interval::ALL,
            };
            scan(&world.core, &query).flatten().count()
        })
    }

    /// Regression: sources could not be read if a chunk with other fields was damaged, and others could afterwards.
    #[test]
    fn damage_to_a_chunk_hides_its_own_sources_only() {
        let world = World::new(options());
        for number in 0..40 {
            for field in FIELDS {
                world.append_field(&[format!("{field},pod=p{number}")], field, 1);
            }
        }
        world.flush();
        assert_eq!(readable(&world), [40, 40]);
        let names = world.disk.list().unwrap();
        let segment = names.iter().find(|name| name.starts_with("segment-"));
        let segment = segment.unwrap();
        let bytes = world.disk.open(segment).unwrap().len().unwrap();
        let damaged = |byte| {
            let disk = world.disk.fork(1);
            disk.flip_bit(segment, 8 * byte);
            readable(&world.on(disk, options()))
        };
        let found: Vec<[usize; 2]> = (0..bytes).map(damaged).collect();
        for only in [[40, 0], [0, 40]] {
            assert!(found.contains(&only), "{found:?}");
        }
    }
}
