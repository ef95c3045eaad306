//! Bundles in segments: blocks with few rows, of many sources, that are encoded together.
//!
//! A block of ten rows takes more bytes for its header than for its rows. In a bundle, the header and
//! the tables of frequencies are shared. The index of the segment lists each block of a bundle as an
//! entry of its own, so rules, merges and recovery need not know bundles. `docs/format/segment.md`
//! specifies the bytes.

pub mod cache;
mod chunks;
pub mod encode;
mod summaries;

use crate::bytes::{Cursor, Short};
use crate::segment::Entry;
use seiner_bundle::{ChunkInfo, ChunkRows, Directory};
use seiner_codec::checksum;
use std::ops::Range;

/// Length of the header of a bundle in bytes.
pub const HEADER_BYTES: usize = 32;
const MAGIC: &[u8; 4] = b"BNDL";

/// Header of a bundle. The directory and the data follow it, then zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Lowest number of a block.
    pub first_block: u64,
    /// Highest number of a block.
    pub last_block: u64,
    /// Length of the directory in bytes.
    pub directory: u32,
    /// Length of the data in bytes.
    pub data: u32,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[4..8].copy_from_slice(MAGIC);
        out[8..16].copy_from_slice(&self.first_block.to_le_bytes());
        out[16..24].copy_from_slice(&self.last_block.to_le_bytes());
        out[24..28].copy_from_slice(&self.directory.to_le_bytes());
        out[28..].copy_from_slice(&self.data.to_le_bytes());
        let sum = checksum(&out[4..]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Checks that rows from one time to another are those of a block in the bundle.
    ///
    /// # Errors
    /// A description of the damage.
    fn check(&self, entry: &Entry, rows: usize, span: (i64, i64)) -> Result<(), String> {
        let numbers = self.first_block..=self.last_block;
        if !numbers.contains(&entry.number) {
            return Err(format!(
                "the bundle has the blocks {numbers:?}, not {}",
                entry.number
            ));
        }
        if (rows, span) != (entry.rows as usize, (entry.first, entry.last)) {
            return Err(format!(
                "source {} has {rows} rows in the bundle, the footer lists {}, or other times",
                entry.source, entry.rows
            ));
        }
        Ok(())
    }

    /// Checks and decodes the header at the beginning of a bundle of `len` bytes.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn decode(bytes: &[u8], len: u64) -> Result<Header, String> {
        let short = |Short| "the bundle is too short for its header".to_string();
        let mut cursor = Cursor(bytes);
        let stored = cursor.u32().map_err(short)?;
        let body = cursor.take(HEADER_BYTES - 4).map_err(short)?;
        let found = checksum(body);
        if stored != found {
            return Err(format!(
                "the checksum of the bundle's header is {found:08x}, {stored:08x} was written"
            ));
        }
        let header = Header::parse(body).map_err(|Short| "it is not a bundle".to_string())?;
        if HEADER_BYTES as u64 + u64::from(header.directory) + u64::from(header.data) > len {
            return Err("the parts of the bundle are longer than the bundle".to_string());
        }
        Ok(header)
    }

    /// Decodes a header after its checksum.
    fn parse(body: &[u8]) -> Result<Header, Short> {
        let mut cursor = Cursor(body);
        if cursor.take(4)? != MAGIC {
            return Err(Short);
        }
        Ok(Header {
            first_block: cursor.u64()?,
            last_block: cursor.u64()?,
            directory: cursor.u32()?,
            data: cursor.u32()?,
        })
    }

    /// Returns the range of the directory in the bundle. The data follow it.
    pub fn directory_range(&self) -> Range<u64> {
        let start = HEADER_BYTES as u64;
        start..start + u64::from(self.directory)
    }

    /// Parses the directory in the first bytes of the bundle.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn parse_directory(&self, bytes: &[u8]) -> Result<Directory, String> {
        let end = self.directory_range().end as usize;
        let directory = Directory::parse(&bytes[HEADER_BYTES..end]);
        let directory = directory.map_err(|error| error.to_string())?;
        match directory.data_bytes() == u64::from(self.data) {
            true => Ok(directory),
            false => Err(format!(
                "the chunks have {} bytes, the bundle's header states {}",
                directory.data_bytes(),
                self.data
            )),
        }
    }
}

/// Bundle whose bytes were all read.
pub struct Whole<'a> {
    /// Header of the bundle.
    pub header: Header,
    /// Directory of the bundle.
    pub directory: Directory,
    /// Bytes of the chunks.
    pub data: &'a [u8],
    /// Bytes that follow the data.
    pub rest: &'a [u8],
}

impl<'a> Whole<'a> {
    /// Checks the header and the directory of a bundle.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn open(bytes: &'a [u8]) -> Result<Whole<'a>, String> {
        let header = Header::decode(bytes, bytes.len() as u64)?;
        let directory = header.parse_directory(bytes)?;
        let (_, data) = bytes.split_at(header.directory_range().end as usize);
        let (data, rest) = data.split_at(header.data as usize);
        Ok(Whole {
            header,
            directory,
            data,
            rest,
        })
    }

    /// Decodes a chunk.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn chunk(&self, chunk: &ChunkInfo) -> Result<ChunkRows, String> {
        let rows = self
            .directory
            .decode_chunk(chunk.index, &self.data[chunk.start..chunk.end]);
        rows.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_decoded_as_it_was_encoded_and_damage_is_found() {
        let header = Header {
            first_block: 7,
            last_block: 1 << 40,
            directory: 300,
            data: 5000,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes, 5332), Ok(header));
        assert!(
            Header::decode(&bytes, 5331).is_err(),
            "the parts are longer"
        );
        assert!(Header::decode(&bytes[..31], 9999).is_err());
        for at in 0..HEADER_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(Header::decode(&damaged, 9999).is_err(), "byte {at}");
        }
    }
}
