//! Reading of parts of a file, with their checksums.

use crate::bytes::Malformed;
use crate::error::Error;
use crate::page::{PageRef, unpack};
use seiner_codec::checksum;
use seiner_platform::File;
use std::io;
use std::sync::Arc;

/// A run of bytes in a file, with its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Checksum of the bytes.
    pub sum: u32,
}

impl Extent {
    /// Returns the end of the bytes, if it is at most `limit`.
    pub fn end(&self, limit: u64) -> Result<u64, Malformed> {
        let end = self.offset.checked_add(self.len).ok_or(Malformed)?;
        (end <= limit).then_some(end).ok_or(Malformed)
    }
}

/// An open file with its name.
pub struct Reader {
    pub name: String,
    pub file: Arc<dyn File>,
}

impl Reader {
    /// Returns the error of damaged bytes at an offset.
    pub fn damage(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::Damage {
            file: self.name.clone(),
            offset,
            what: what.into(),
        }
    }

    /// Returns the error of the disk for this file.
    pub fn io(&self, source: io::Error) -> Error {
        Error::Io {
            file: self.name.clone(),
            source,
        }
    }

    /// Reads bytes without a checksum.
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        match self.file.read_at(offset, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.damage(offset, format!("the file ends within {len} bytes")))
            }
            Err(error) => Err(self.io(error)),
        }
    }

    /// Reads bytes and verifies their checksum. The bytes are within the file.
    pub fn extent(&self, extent: &Extent, what: &str) -> Result<Vec<u8>, Error> {
        let len = usize::try_from(extent.len)
            .map_err(|_| self.damage(extent.offset, format!("{what} exceeds the memory")))?;
        let bytes = self.read(extent.offset, len)?;
        self.verify(extent.offset, &bytes, extent.sum, what)?;
        Ok(bytes)
    }

    /// Verifies the checksum of bytes.
    pub fn verify(&self, offset: u64, bytes: &[u8], sum: u32, what: &str) -> Result<(), Error> {
        #[cfg(any(test, fuzzing))]
        if crate::unchecked::is_unchecked() {
            return Ok(());
        }
        let found = checksum(bytes);
        match found == sum {
            true => Ok(()),
            false => Err(self.damage(
                offset,
                format!("the checksum of {what} is {found:08x}, {sum:08x} was written"),
            )),
        }
    }

    /// Reads and decompresses a page.
    pub fn page(&self, page: &PageRef) -> Result<Vec<u8>, Error> {
        let extent = Extent {
            offset: page.offset,
            len: page.stored.into(),
            sum: page.sum,
        };
        let stored = self.extent(&extent, "a page")?;
        unpack(stored, page.plain as usize)
            .map_err(|Malformed| self.damage(page.offset, "a page cannot be decompressed"))
    }
}
