//! Directory of a bundle: what its chunks contain, and the tables that decode them.

use std::sync::Arc;

use seiner_codec::DecodeError;
use seiner_codec::reader::Reader;
use seiner_model::Interval;

use crate::chunk::{self, ChunkRows, SourceRows};
use crate::entries::ChunkEntry;
use crate::error::BundleError;
use crate::layout::Layout;
use crate::lists::at;
use crate::parsed_group::Group;

/// Version of the format that this program writes and reads.
pub(crate) const VERSION: u8 = 1;
/// Bytes of the checksum at the front of a directory.
const CHECKSUM: usize = 4;

/// Parsed directory of a bundle.
///
/// The tables take their decoding form (9 KiB each) when a chunk first needs them, and keep it.
#[derive(Debug)]
pub struct Directory {
    groups: Vec<Group>,
    chunks: Vec<Placed>,
    interval: Interval,
    data_bytes: u64,
}

/// Description of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Index of the chunk in the bundle.
    pub index: usize,
    /// Offset of the first byte in the data.
    pub start: usize,
    /// Offset behind the last byte in the data.
    pub end: usize,
    /// Number of the first source.
    pub first_id: u64,
    /// Number of the last source.
    pub last_id: u64,
    /// Number of sources.
    pub sources: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of values.
    pub samples: u64,
    /// Interval of the times, from the earliest to the latest.
    pub interval: Interval,
}

/// Chunk with its group and place.
#[derive(Clone, Copy, Debug)]
struct Placed {
    group: usize,
    offset: usize,
    entry: ChunkEntry,
}

impl Directory {
    /// Parses the directory of a bundle.
    ///
    /// # Errors
    /// The bytes are not a directory of this version, or are damaged.
    pub fn parse(bytes: &[u8]) -> Result<Directory, BundleError> {
        let Some((stated, body)) = bytes.split_first_chunk::<CHECKSUM>() else {
            return Err(BundleError::Directory(DecodeError::Truncated {
                what: "the checksum",
                offset: 0,
                needed: CHECKSUM,
                left: bytes.len(),
            }));
        };
        let expected = u32::from_le_bytes(*stated);
        let found = seiner_codec::checksum(body);
        if expected != found {
            return Err(BundleError::DirectoryChecksum { expected, found });
        }
        Directory::parse_body(body)
    }

    /// Parses the directory without its checksum.
    pub(crate) fn parse_body(body: &[u8]) -> Result<Directory, BundleError> {
        match body.first() {
            Some(&found) if found != VERSION => Err(BundleError::Version {
                expected: VERSION,
                found,
            }),
            _ => Directory::take(&mut Reader::new(body))
                .map_err(|error| BundleError::Directory(at(error, CHECKSUM))),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Directory, DecodeError> {
        reader.byte("the version")?;
        let count = reader.length(reader.rest().len(), "more groups than bytes")?;
        let mut directory = Directory {
            groups: Vec::new(),
            chunks: Vec::new(),
            interval: Interval::new(i64::MAX, i64::MIN),
            data_bytes: 0,
        };
        for _ in 0..count {
            let (mut group, entries) = Group::take(reader)?;
            let first = directory.chunks.len();
            for entry in entries {
                let offset = directory.data_bytes as usize;
                let end = offset
                    .checked_add(entry.length)
                    .filter(|end| *end < usize::MAX >> 1);
                let Some(end) = end else {
                    return Err(reader.invalid("the chunks exceed every memory"));
                };
                directory.data_bytes = end as u64;
                directory.interval.start = directory.interval.start.min(entry.start);
                directory.interval.end = directory.interval.end.max(entry.end);
                directory.chunks.push(Placed {
                    group: directory.groups.len(),
                    offset,
                    entry,
                });
            }
            group.chunks = (first, directory.chunks.len());
            directory.groups.push(group);
        }
        if !reader.rest().is_empty() {
            return Err(reader.invalid("bytes follow the last group"));
        }
        Ok(directory)
    }

    /// Returns the interval from the earliest to the latest time; empty if the bundle is empty.
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// Returns the number of sources. A source with two layouts counts twice.
    pub fn sources(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| chunk.entry.sources as u64)
            .sum()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| chunk.entry.rows as u64)
            .sum()
    }

    /// Returns the number of values.
    pub fn samples(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.entry.samples).sum()
    }

    /// Returns the approximate memory in bytes. It grows when a chunk first needs a table.
    pub fn memory(&self) -> usize {
        let groups = self.groups.iter().map(Group::memory);
        groups.sum::<usize>() + self.chunks.capacity() * size_of::<Placed>()
    }

    /// Returns the length of the data in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Returns the layouts of the sources, in the order of their groups.
    pub fn layouts(&self) -> impl Iterator<Item = &Arc<Layout>> {
        self.groups.iter().map(|group| &group.layout)
    }

    /// Returns the layout of the sources in a chunk of this directory.
    ///
    /// # Panics
    /// If the chunk is that of another directory, with more chunks.
    pub fn layout_of(&self, chunk: &ChunkInfo) -> &Arc<Layout> {
        &self.groups[self.chunks[chunk.index].group].layout
    }

    /// Returns the chunks in the order of the data. The chunks of one layout are neighbours; among them
    /// the sources ascend.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = ChunkInfo> {
        (0..self.chunks.len()).map(|index| self.info(index))
    }

    fn info(&self, index: usize) -> ChunkInfo {
        let Placed { offset, entry, .. } = self.chunks[index];
        ChunkInfo {
            index,
            start: offset,
            end: offset + entry.length,
            first_id: entry.first_id,
            last_id: entry.last_id,
            sources: entry.sources,
            rows: entry.rows,
            samples: entry.samples,
            interval: Interval::new(entry.start, entry.end),
        }
    }

    /// Returns the chunks that may hold a source: at most one of each layout.
    pub fn find(&self, id: u64) -> impl Iterator<Item = ChunkInfo> {
        self.groups.iter().filter_map(move |group| {
            let (first, end) = group.chunks;
            let chunks = &self.chunks[first..end];
            let at = chunks.partition_point(|chunk| chunk.entry.last_id < id);
            let chunk = chunks.get(at)?;
            (chunk.entry.first_id <= id).then(|| self.info(first + at))
        })
    }

    /// Decodes all rows of a chunk from its bytes.
    ///
    /// # Errors
    /// There is no such chunk, or the bytes are not this chunk.
    pub fn decode_chunk(&self, index: usize, bytes: &[u8]) -> Result<ChunkRows, BundleError> {
        let placed = self.placed(index)?;
        let (offset, entry) = (placed.offset as u64, placed.entry);
        if bytes.len() != entry.length {
            return Err(BundleError::ChunkLength {
                chunk: index,
                offset,
                expected: entry.length,
                found: bytes.len(),
            });
        }
        let found = seiner_codec::checksum(bytes);
        if found != entry.checksum {
            return Err(BundleError::ChunkChecksum {
                chunk: index,
                offset,
                expected: entry.checksum,
                found,
            });
        }
        self.decode_unchecked(index, bytes)
    }

    /// Decodes a chunk without comparing its length and checksum.
    pub(crate) fn decode_unchecked(
        &self,
        index: usize,
        bytes: &[u8],
    ) -> Result<ChunkRows, BundleError> {
        let placed = self.placed(index)?;
        let group = &self.groups[placed.group];
        chunk::decode(group, &placed.entry, bytes).map_err(|error| BundleError::Chunk {
            chunk: index,
            offset: placed.offset as u64,
            error,
        })
    }

    /// Decodes the rows of one source; `None` if the chunk does not hold it.
    ///
    /// # Errors
    /// There is no such chunk, or the bytes are not this chunk.
    pub fn decode_source(
        &self,
        index: usize,
        bytes: &[u8],
        id: u64,
    ) -> Result<Option<SourceRows>, BundleError> {
        Ok(self.decode_chunk(index, bytes)?.find(id))
    }

    fn placed(&self, chunk: usize) -> Result<&Placed, BundleError> {
        self.chunks.get(chunk).ok_or(BundleError::NoChunk {
            chunk,
            chunks: self.chunks.len(),
        })
    }
}
