//! Journal files: written one after another, recycled, and released from the oldest on.

use super::record::{Encoder, HEADER_BYTES, RecordPosition};
use super::staging::Staging;
use super::{PREFIX, SPARE_PREFIX};
use crate::aside::copy_aside;
use crate::bytes::{COUNT_LIMIT, Cursor};
use crate::error::{Error, io_error, sync_error};
use crate::ledger::JournalFile;
use seiner_codec::checksum;
use seiner_platform::{Disk, File};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"SEINJRNL";
pub(super) const VERSION: u32 = 2;
/// First of the earlier versions that are still read.
const FIRST_VERSION: u32 = 1;
/// Bytes of a file header: magic, version, file number, store, first sequence, checksum.
pub const FILE_HEADER_BYTES: u64 = 8 + 4 + 4 + 8 + 8 + 4;
/// Number of spare files kept for reuse: one is in use while the next is needed.
const SPARES: usize = 2;

/// Bytes of memory kept for the next record.
const RECORD_KEPT: usize = 2 << 20;

/// Returns the name of a journal file.
pub fn name(number: u32) -> String {
    format!("{PREFIX}{number:08x}")
}

/// Returns the number in the name of a journal file.
pub fn number(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()
}

/// Header of a journal file.
pub struct FileHeader {
    /// Number of the file.
    pub number: u32,
    /// Identity of the store.
    pub store: u64,
    /// Sequence of the first record.
    pub first_sequence: u64,
    /// Version of the records.
    pub version: u32,
}

impl FileHeader {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.store.to_le_bytes());
        bytes.extend_from_slice(&self.first_sequence.to_le_bytes());
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a header. Returns `None` if the bytes are not a header of a supported version.
    pub fn decode(bytes: &[u8]) -> Option<FileHeader> {
        let (head, sum) = bytes
            .get(..FILE_HEADER_BYTES as usize)?
            .split_at(FILE_HEADER_BYTES as usize - 4);
        let mut cursor = Cursor(head);
        if cursor.take(8).ok()? != MAGIC {
            return None;
        }
        let version = cursor.u32().ok()?;
        let header = FileHeader {
            version,
            number: cursor.u32().ok()?,
            store: cursor.u64().ok()?,
            first_sequence: cursor.u64().ok()?,
        };
        let known = (FIRST_VERSION..=VERSION).contains(&version);
        let holds = known && Cursor(sum).u32().ok()? == checksum(head);
        (holds && header.first_sequence <= COUNT_LIMIT).then_some(header)
    }
}

/// Writer of the journal.
pub struct JournalWriter {
    disk: Arc<dyn Disk>,
    store: u64,
    file_bytes: u64,
    current: Option<Current>,
    sequence: u64,
    /// Rows in all records before the next record.
    rows: u64,
    /// Files that were begun and are not yet in the ledger.
    pub begun: Vec<(u32, JournalFile)>,
    /// Sequence below which all records are durable.
    synced_before: u64,
    encoder: Encoder,
    record: Vec<u8>,
    /// True while the record is not yet written.
    waits: bool,
    spares: Vec<String>,
    next_spare: u32,
    /// Damaged files, which are set aside instead of released.
    pub damaged: Vec<u32>,
    /// Staged rows, exchanged for those of the caller.
    pub staging: Staging,
}

struct Current {
    number: u32,
    file: Arc<dyn File>,
    len: u64,
    synced: bool,
}

impl JournalWriter {
    /// Creates a writer. `sequence` is the sequence of the next record, and `rows` the number of
    /// rows in the earlier records, which are durable. `spares` are files to overwrite.
    pub fn new(
        disk: Arc<dyn Disk>,
        store: u64,
        file_bytes: u64,
        (sequence, rows): (u64, u64),
        spares: Vec<String>,
    ) -> JournalWriter {
        JournalWriter {
            disk,
            store,
            file_bytes,
            current: None,
            sequence,
            rows,
            begun: Vec::new(),
            synced_before: sequence,
            encoder: Encoder::new(),
            record: Vec::new(),
            waits: false,
            next_spare: spares.len() as u32,
            spares,
            damaged: Vec::new(),
            staging: Staging::default(),
        }
    }

    /// Returns the memory of the record and of the staged rows, in bytes.
    pub fn memory(&self) -> usize {
        self.record.capacity() + self.staging.memory()
    }

    /// Returns the sequence of the next record.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns whether a file is full, so that later rows belong to the next file.
    pub fn is_full(&self, number: u32) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.number == number && current.len >= self.file_bytes)
    }

    /// Writes the contents of `staging` as one record of a file, and returns the number of bytes
    /// written.
    pub fn write(&mut self, number: u32) -> Result<u64, Error> {
        let mut bytes = 0;
        if self
            .current
            .as_ref()
            .is_none_or(|current| current.number != number)
        {
            self.begin(number)?;
            bytes = FILE_HEADER_BYTES;
        }
        if !self.waits {
            self.record.clear();
            self.record.shrink_to(RECORD_KEPT);
            let position = RecordPosition {
                file: number,
                sequence: self.sequence,
                synced_before: self.synced_before,
                rows_before: self.rows,
            };
            self.rows += self.staging.rows;
            self.encoder
                .encode(&mut self.staging, position, &mut self.record);
            self.staging.clear();
            self.waits = true;
        }
        let current = self.current.as_mut().expect("a file was begun");
        current
            .file
            .write_at(current.len, &self.record)
            .map_err(io_error(|| format!("writing {}", name(number))))?;
        self.waits = false;
        let bytes_of_record = (self.record.len() - HEADER_BYTES) as u64;
        current.len += bytes_of_record;
        current.synced = false;
        self.sequence += 1;
        Ok(bytes + bytes_of_record)
    }

    /// Returns whether a record is still unwritten because the disk was full. The next
    /// [`JournalWriter::write`] writes that record first.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Makes written records durable. Returns whether any record was written since the last sync.
    pub fn sync(&mut self) -> Result<bool, Error> {
        let Some(current) = self.current.as_mut().filter(|current| !current.synced) else {
            return Ok(false);
        };
        current
            .file
            .sync()
            .map_err(sync_error(|| format!("syncing {}", name(current.number))))?;
        current.synced = true;
        self.synced_before = self.sequence;
        Ok(true)
    }

    fn begin(&mut self, number: u32) -> Result<(), Error> {
        self.sync()?;
        let name = name(number);
        let context = || format!("beginning {name}");
        let spare = self.spares.pop();
        let file = match &spare {
            Some(spare) => {
                self.disk.rename(spare, &name).map_err(io_error(context))?;
                self.disk.open(&name).map_err(io_error(context))?
            }
            None => {
                let file = self.disk.create(&name).map_err(io_error(context))?;
                file.reserve(self.file_bytes).map_err(io_error(context))?;
                file
            }
        };
        // The name is synced first: an overwritten file must not return under its old name.
        self.disk.sync_names().map_err(sync_error(context))?;
        let mut header = FileHeader {
            number,
            store: self.store,
            first_sequence: self.sequence,
            version: VERSION,
        }
        .encode();
        header.extend_from_slice(&[0; HEADER_BYTES]);
        file.write_at(0, &header).map_err(io_error(context))?;
        let (sequence, rows) = (self.sequence, self.rows);
        self.begun.push((number, JournalFile { sequence, rows }));
        self.current = Some(Current {
            number,
            file,
            len: FILE_HEADER_BYTES,
            synced: false,
        });
        Ok(())
    }

    /// Copies the damaged files up to a number to the names of files set aside. The copies are
    /// durable on return. Call this function before the ledger marks the files as unneeded: a start
    /// removes such files.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn keep_damaged(&self, last: u32) -> Result<(), Error> {
        let damaged = self.damaged.iter().filter(|&&number| number <= last);
        let mut copied = false;
        for &number in damaged {
            copy_aside(&*self.disk, &name(number))?;
            copied = true;
        }
        match copied {
            true => self
                .disk
                .sync_names()
                .map_err(sync_error(|| "syncing the names of files".to_string())),
            false => Ok(()),
        }
    }

    /// Releases a file that no block needs: keeps it as a spare, or removes it.
    pub fn release(&mut self, number: u32, keep: bool) -> Result<(), Error> {
        let context = || format!("letting {} go", name(number));
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.number == number)
        {
            self.current = None;
        }
        let damaged = self.damaged.iter().position(|&other| other == number);
        if let Some(at) = damaged {
            self.disk.remove(&name(number)).map_err(io_error(context))?;
            self.damaged.swap_remove(at);
        } else if keep && self.spares.len() < SPARES && !self.is_long(number)? {
            let spare = format!("{SPARE_PREFIX}{:08x}", self.next_spare);
            self.next_spare += 1;
            self.disk
                .rename(&name(number), &spare)
                .map_err(io_error(context))?;
            self.spares.push(spare);
        } else {
            self.disk.remove(&name(number)).map_err(io_error(context))?;
        }
        Ok(())
    }

    /// Returns whether a long record made a file too long for a spare. Two spares and the file that
    /// is begun must fit into the space charged for them. The file must not be truncated, because
    /// it may return under its old name after a crash.
    fn is_long(&self, number: u32) -> Result<bool, Error> {
        let context = || format!("looking at {}", name(number));
        let file = self.disk.open(&name(number)).map_err(io_error(context))?;
        let len = file.len().map_err(io_error(context))?;
        Ok(len > self.file_bytes + self.file_bytes / 3)
    }

    /// Removes the spare files.
    pub fn drop_spares(&mut self) -> Result<(), Error> {
        for spare in self.spares.drain(..) {
            self.disk
                .remove(&spare)
                .map_err(io_error(|| format!("removing {spare}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_a_sequence_beyond_the_limit_is_rejected() {
        let mut header = FileHeader {
            number: 1,
            store: 7,
            first_sequence: COUNT_LIMIT,
            version: VERSION,
        };
        assert!(FileHeader::decode(&header.encode()).is_some());
        header.first_sequence = u64::MAX;
        assert!(FileHeader::decode(&header.encode()).is_none());
    }
}
