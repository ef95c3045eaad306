//! Header and trailer of a names file.

use crate::bytes::{Cursor, Malformed};
use crate::reader::Extent;
use seiner_codec::checksum;

/// First and last bytes of a names file.
pub const MAGIC: &[u8; 8] = b"SEINNAME";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 4 + 8 + 4;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 8 + 8 + 8 + 4 + 8 + 8 + 4 + 8 + 4 + 8;
/// Maximum bytes of a directory.
pub const DIRECTORY_LIMIT: u64 = 1 << 30;

/// Origin of a file: its store, and the moment of the store's catalog at which it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Identity of the store.
    pub store: u64,
    /// Secret seed of the hashes. All files of a store have the same.
    pub seed: u64,
    /// Generation of the catalog.
    pub generation: u32,
    /// Length of the catalog in bytes. Generation and length together grow with each change of the catalog: a file
    /// that is newer than the catalog beside it may give numbers other names.
    pub position: u64,
}

/// Header: identity of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Origin of the file.
    pub origin: Origin,
    /// Checksum of the fields before.
    pub sum: u32,
}

impl Header {
    /// Returns the bytes of a header of this version.
    pub fn encode(origin: &Origin) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&origin.store.to_le_bytes());
        out.extend_from_slice(&origin.seed.to_le_bytes());
        out.extend_from_slice(&origin.generation.to_le_bytes());
        out.extend_from_slice(&origin.position.to_le_bytes());
        out.extend_from_slice(&checksum(&out).to_le_bytes());
        out
    }

    /// Decodes a header without verifying version and checksum.
    pub fn parse(bytes: &[u8]) -> Result<Header, Malformed> {
        let mut rest = Cursor(bytes);
        if rest.take(8)? != MAGIC {
            return Err(Malformed);
        }
        Ok(Header {
            version: rest.u32()?,
            origin: Origin {
                store: rest.u64()?,
                seed: rest.u64()?,
                generation: rest.u32()?,
                position: rest.u64()?,
            },
            sum: rest.u32()?,
        })
    }
}

/// Trailer: places of directory and filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Place of the directory.
    pub directory: Extent,
    /// Bytes of the directory after decompression. A directory with as many stored bytes is not compressed.
    pub plain: u64,
    /// Place of the filter.
    pub filter: Extent,
    /// Length of the file in bytes.
    pub len: u64,
    /// Checksum of the fields before.
    pub sum: u32,
}

impl Trailer {
    /// Returns the bytes of the trailer, with the checksum computed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER_BYTES);
        let Trailer {
            directory, filter, ..
        } = self;
        for word in [directory.offset, directory.len, self.plain] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&directory.sum.to_le_bytes());
        for word in [filter.offset, filter.len] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&filter.sum.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&checksum(&out).to_le_bytes());
        out.extend_from_slice(MAGIC);
        out
    }

    /// Decodes the trailer of a file of `len` bytes without verifying the checksum. Directory, filter and trailer lie
    /// end to end.
    pub fn parse(bytes: &[u8], len: u64) -> Result<Trailer, Malformed> {
        let mut rest = Cursor(bytes);
        let (directory_offset, directory_len, plain) = (rest.u64()?, rest.u64()?, rest.u64()?);
        let directory = Extent {
            offset: directory_offset,
            len: directory_len,
            sum: rest.u32()?,
        };
        let filter = Extent {
            offset: rest.u64()?,
            len: rest.u64()?,
            sum: rest.u32()?,
        };
        let trailer = Trailer {
            directory,
            plain,
            filter,
            len: rest.u64()?,
            sum: rest.u32()?,
        };
        let end = len.checked_sub(TRAILER_BYTES as u64).ok_or(Malformed)?;
        let fits = rest.0 == MAGIC
            && directory.offset >= HEADER_BYTES as u64
            && directory.end(end)? == filter.offset
            && filter.end(end)? == end
            && directory.len <= plain
            && plain <= DIRECTORY_LIMIT
            && trailer.len == len;
        fits.then_some(trailer).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_trailer_return() {
        let origin = Origin {
            store: 5,
            seed: 9,
            generation: 2,
            position: 700,
        };
        let header = Header::encode(&origin);
        assert_eq!(header.len(), HEADER_BYTES);
        let found = Header::parse(&header).unwrap();
        assert_eq!((found.version, found.origin), (1, origin));
        let extent = |offset, len| Extent {
            offset,
            len,
            sum: 3,
        };
        let mut trailer = Trailer {
            directory: extent(100, 50),
            plain: 70,
            filter: extent(150, 64),
            len: 214 + TRAILER_BYTES as u64,
            sum: 0,
        };
        let bytes = trailer.encode();
        assert_eq!(bytes.len(), TRAILER_BYTES);
        let found = Trailer::parse(&bytes, trailer.len).unwrap();
        trailer.sum = found.sum;
        assert_eq!(found, trailer);
        assert_eq!(Trailer::parse(&bytes, trailer.len + 1), Err(Malformed));
        trailer.directory.offset = u64::MAX;
        let bytes = trailer.encode();
        assert_eq!(Trailer::parse(&bytes, trailer.len), Err(Malformed));
    }
}
