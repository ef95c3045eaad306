//! Sealed segments, which never change.

use super::Entry;
use super::files::Files;
use super::footer::{self, PageEntry, TRAILER_BYTES, Trailer};
use crate::error::{Error, io_error};
use crate::ledger::SegmentNote;
use crate::space::on_disk;
use crate::status::SegmentInfo;
use seiner_model::Interval;
use seiner_platform::{Disk, File};
use std::ops::Range;
use std::sync::Arc;

/// Last footer page that was read.
#[derive(Default)]
pub struct LastPage {
    index: Option<usize>,
    entries: Vec<Entry>,
}

/// Sealed segment. Its sparse index is in memory, the rest on disk.
pub struct Segment {
    /// Trailer of the segment.
    pub trailer: Trailer,
    access: Access,
    name: String,
    sparse_index: Vec<PageEntry>,
    bytes: u64,
    /// Bytes that the file system allocated to the file.
    allocated: u64,
}

/// Access to the file of a segment.
enum Access {
    /// File that stays open as long as the segment exists.
    Held(Arc<dyn File>),
    /// File from the cache of open files, requested for each use.
    Asked(Arc<Files>),
}

/// Reads the trailer and the sparse index that end at `end`, of a segment or of a checkpoint.
pub fn read_index(
    file: &dyn File,
    name: &str,
    store: u64,
    end: u64,
) -> Result<(Trailer, Vec<PageEntry>), Error> {
    let context = || format!("reading {name}");
    let damage = |offset: u64, what: String| Error::Damage {
        file: name.to_string(),
        offset,
        what,
    };
    if end < TRAILER_BYTES as u64 {
        return Err(damage(
            0,
            format!("{end} bytes are too short for a trailer"),
        ));
    }
    let at = end - TRAILER_BYTES as u64;
    let mut buffer = vec![0; TRAILER_BYTES];
    file.read_at(at, &mut buffer).map_err(io_error(context))?;
    let trailer = Trailer::decode(&buffer, end).map_err(|what| damage(at, what))?;
    if trailer.store != store {
        return Err(damage(
            at,
            format!(
                "it belongs to store {:016x}, this is {store:016x}",
                trailer.store
            ),
        ));
    }
    buffer.resize(trailer.sparse_index_len as usize, 0);
    file.read_at(trailer.sparse_index_offset, &mut buffer)
        .map_err(io_error(context))?;
    let sparse_index = footer::decode_sparse_index(&trailer, &buffer)
        .map_err(|what| damage(trailer.sparse_index_offset, what))?;
    Ok((trailer, sparse_index))
}

/// Reads the entries of a page of an index that ends at `end`.
pub fn read_page(
    file: &dyn File,
    name: &str,
    end: u64,
    page: &PageEntry,
) -> Result<Vec<Entry>, Error> {
    let damage = |what| Error::Damage {
        file: name.to_string(),
        offset: u64::from(page.offset),
        what,
    };
    if u64::from(page.offset) + u64::from(page.len) > end {
        return Err(damage(
            "the sparse index points outside the segment".to_string(),
        ));
    }
    let mut bytes = vec![0; page.len as usize];
    file.read_at(u64::from(page.offset), &mut bytes)
        .map_err(io_error(|| format!("reading {name}")))?;
    footer::decode_page(page, &bytes).map_err(damage)
}

impl Segment {
    /// Creates a segment that was just sealed. `bytes`: its length; `allocated`: the bytes that the
    /// file system allocated to its file.
    pub fn new(
        trailer: Trailer,
        sparse_index: Vec<PageEntry>,
        files: Arc<Files>,
        name: String,
        bytes: u64,
        allocated: u64,
    ) -> Segment {
        Segment {
            trailer,
            access: Access::Asked(files),
            name,
            sparse_index,
            bytes,
            allocated,
        }
    }

    /// Opens a segment: reads trailer and sparse index.
    pub fn open(
        files: Arc<Files>,
        number: u64,
        name: String,
        store: u64,
    ) -> Result<Segment, Error> {
        let segment = Segment::of_file(files.get(number)?, name, store)?;
        Ok(Segment {
            access: Access::Asked(files),
            ..segment
        })
    }

    /// Opens a segment in a directory that no engine has open.
    pub fn on(disk: &dyn Disk, name: &str, store: u64) -> Result<Segment, Error> {
        let file = disk.open(name);
        let file = file.map_err(io_error(|| format!("opening {name}")))?;
        Segment::of_file(file, name.to_string(), store)
    }

    /// Opens a segment from a file that stays open.
    pub fn of_file(file: Arc<dyn File>, name: String, store: u64) -> Result<Segment, Error> {
        let context = || format!("reading {name}");
        let bytes = file.len().map_err(io_error(context))?;
        let allocated = file.allocated().map_err(io_error(context))?;
        let (trailer, sparse_index) = read_index(&*file, &name, store, bytes)?;
        Ok(Segment {
            trailer,
            access: Access::Held(file),
            name,
            sparse_index,
            bytes,
            allocated,
        })
    }

    /// Returns the interval of the times in the segment.
    pub fn span(&self) -> Interval {
        self.trailer.span
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Segment>() + self.sparse_index.capacity() * size_of::<PageEntry>()
    }

    /// Returns the length of the segment in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the disk space of the segment if the disk allocates units of `unit` bytes. A file in
    /// many pieces takes more than its length: the file system records where the pieces are.
    pub fn disk_bytes(&self, unit: u64) -> u64 {
        on_disk(self.bytes.max(self.allocated), unit)
    }

    /// Returns the name of the segment's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the public description of the segment.
    pub fn info(&self) -> SegmentInfo {
        SegmentInfo {
            number: self.trailer.number,
            file: self.name.clone(),
            bytes: self.bytes,
            blocks: self.trailer.blocks,
            rows: self.trailer.rows,
            first_time: self.trailer.span.start,
            last_time: self.trailer.span.end,
        }
    }

    /// Returns the ledger entry of the segment.
    pub fn note(&self) -> SegmentNote {
        SegmentNote {
            blocks: self.trailer.blocks,
            rows: self.trailer.rows,
            first: self.trailer.span.start,
            last: self.trailer.span.end,
        }
    }

    /// Returns the sparse index entries of the pages.
    pub fn sparse_index(&self) -> &[PageEntry] {
        &self.sparse_index
    }

    fn file(&self) -> Result<Arc<dyn File>, Error> {
        match &self.access {
            Access::Held(file) => Ok(file.clone()),
            Access::Asked(files) => files.get(self.trailer.number),
        }
    }

    /// Reads the entries of a page.
    pub fn page(&self, page: &PageEntry) -> Result<Vec<Entry>, Error> {
        read_page(&*self.file()?, &self.name, self.bytes, page)
    }

    /// Reads the blocks of a source, by number. `last` caches the page read last, which probably
    /// also contains the next source.
    pub fn blocks_of(
        &self,
        source: u32,
        last: &mut LastPage,
        blocks: &mut Vec<Entry>,
    ) -> Result<(), Error> {
        // The first page that can contain the source is the page before the first page that begins
        // past it.
        let first = self
            .sparse_index
            .partition_point(|page| page.first_source < source)
            .saturating_sub(1);
        for (index, page) in self
            .sparse_index
            .iter()
            .enumerate()
            .skip(first)
            .take_while(|(_, page)| page.first_source <= source)
        {
            if last.index != Some(index) {
                *last = LastPage {
                    index: Some(index),
                    entries: self.page(page)?,
                };
            }
            let start = last.entries.partition_point(|entry| entry.source < source);
            blocks.extend(
                last.entries[start..]
                    .iter()
                    .take_while(|entry| entry.source == source),
            );
        }
        Ok(())
    }

    /// Returns an iterator over all blocks, page by page.
    pub fn blocks(&self) -> impl Iterator<Item = Result<Vec<Entry>, Error>> + '_ {
        self.sparse_index.iter().map(|page| self.page(page))
    }

    /// Reads the index of the checkpoint that ends at `end`.
    pub fn checkpoint(&self, end: u64) -> Result<(Trailer, Vec<PageEntry>), Error> {
        read_index(&*self.file()?, &self.name, self.trailer.store, end)
    }

    /// Reads bytes at an offset, without a check.
    pub fn bytes_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        read_bytes(&*self.file()?, &self.name, offset, len)
    }

    /// Reads some bytes at the position of a block or a bundle of `len` bytes.
    ///
    /// # Errors
    /// [`Error::Damage`] if the block or bundle reaches past the end of the file.
    pub fn bytes_within(
        &self,
        (offset, len): (u64, u64),
        range: Range<u64>,
    ) -> Result<Vec<u8>, Error> {
        if offset + len > self.bytes {
            return Err(Error::Damage {
                file: self.name.clone(),
                offset,
                what: format!(
                    "the footer lists {len} bytes of blocks here, but the file has only {} bytes",
                    self.bytes
                ),
            });
        }
        self.bytes_at(offset + range.start, range.end - range.start)
    }

    /// Reads the bytes of a block, or of the bundle that contains it.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        let (offset, len) = entry.extent();
        self.bytes_within((offset, len), 0..len)
    }
}

/// Reads bytes in the file of a segment, without a check.
pub fn read_bytes(file: &dyn File, name: &str, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; len as usize];
    file.read_at(offset, &mut bytes)
        .map_err(io_error(|| format!("reading {name}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::DirectoryVolume;
    use seiner_platform::sim::SimDisk;

    fn segment(bytes: u64, allocated: u64) -> Segment {
        let trailer = Trailer {
            number: 1,
            store: 7,
            blocks: 1,
            rows: 1,
            block_bytes: 100,
            span: Interval::new(0, 0),
            last_block: 1,
            sequence: 1,
            sources: 1,
            layouts: 2,
            sparse_index_offset: 0,
            sparse_index_len: 0,
            sparse_index_sum: 0,
            lane: 0,
            previous: 0,
            born: 0,
        };
        let volume = DirectoryVolume::new(Arc::new(SimDisk::new(1)));
        let files = Arc::new(Files::new(Arc::new(volume)));
        let name = "segment".to_string();
        Segment::new(trailer, Vec::new(), files, name, bytes, allocated)
    }

    #[test]
    fn a_block_that_reaches_past_the_file_is_damage_and_takes_no_memory() {
        let entry = Entry {
            number: 1,
            len: u32::MAX,
            rows: 1,
            ..Entry::default()
        };
        assert!(matches!(
            segment(100, 100).read(&entry),
            Err(Error::Damage { offset: 0, .. })
        ));
    }

    #[test]
    fn a_file_in_many_pieces_is_counted_with_the_map_of_its_pieces() {
        assert_eq!(segment(8192, 8192 + 4096).disk_bytes(4096), 12_288);
        // A file system that allocates late, or compresses, reports less than the length.
        assert_eq!(segment(8192, 512).disk_bytes(4096), 8192);
    }
}
