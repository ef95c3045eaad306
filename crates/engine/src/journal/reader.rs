//! Reader of journal files: their state, and their records one after another.

use super::files::{FILE_HEADER_BYTES, FileHeader, VERSION};
use super::record::{HEADER_BYTES, Header, JournalRecord};
use crate::ahead::compute_ahead;
use crate::bytes::Short;
use crate::ledger::JournalFile;
use seiner_platform::File;

/// Returns whether a file without a header of its own can be released: the file is empty or blank,
/// or it was renamed for reuse and still contains an older number.
pub fn never_begun(bytes: &[u8], number: u32) -> bool {
    let blank = bytes
        .iter()
        .take(FILE_HEADER_BYTES as usize)
        .all(|&byte| byte == 0);
    blank || FileHeader::decode(bytes).is_some_and(|header| header.number != number)
}

/// Contents of a journal file, as far as its header and the ledger show.
pub enum JournalFileState {
    /// File with a valid header.
    Whole(FileReader),
    /// File with a damaged header whose records are readable.
    WithoutHeader(FileReader),
    /// File without any record.
    NeverBegun,
    /// File that was written to and is entirely unreadable.
    Lost(&'static str),
}

impl JournalFileState {
    /// Classifies a file with these bytes. `listed` is the entry of the file in the ledger.
    pub fn of(
        bytes: Vec<u8>,
        number: u32,
        store: u64,
        listed: Option<&JournalFile>,
    ) -> JournalFileState {
        let bytes = match FileReader::new(bytes, number, store) {
            Ok(reader) => return JournalFileState::Whole(reader),
            Err(bytes) => bytes,
        };
        let Some(listed) = listed else {
            // A file whose header never reached the disk contains no acknowledged rows.
            return match never_begun(&bytes, number) {
                true => JournalFileState::NeverBegun,
                false => JournalFileState::Lost("its header is damaged"),
            };
        };
        let reader = FileReader::without_header(bytes, number, listed.sequence);
        match reader.is_readable() {
            true => JournalFileState::WithoutHeader(reader),
            false => JournalFileState::Lost("nothing of it can be read"),
        }
    }
}

/// Record that was read.
pub struct ReadRecord {
    /// Position in the file, in bytes.
    pub at: usize,
    /// Sequence of the record.
    pub sequence: u64,
    /// The record, or an error if it is malformed.
    pub record: Result<JournalRecord, Short>,
}

/// Bytes of a file from which on a thread decodes its records: starting one takes as long as decoding some.
const LARGE: usize = 1 << 20;

/// Reader of the records of a journal file.
pub struct FileReader {
    bytes: Vec<u8>,
    at: usize,
    number: u32,
    version: u32,
    /// Sequence of the next record.
    pub sequence: u64,
}

impl FileReader {
    /// Reads a file. Returns `None` if the file has no header of this store.
    pub fn open(file: &dyn File, number: u32, store: u64) -> std::io::Result<Option<FileReader>> {
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(FileReader::new(bytes, number, store).ok())
    }

    /// Reads the bytes of a file. Returns the bytes as an error if they have no header of this
    /// store.
    pub fn new(bytes: Vec<u8>, number: u32, store: u64) -> Result<FileReader, Vec<u8>> {
        let header = FileHeader::decode(&bytes)
            .filter(|header| header.number == number && header.store == store);
        match header {
            Some(header) => Ok(FileReader {
                bytes,
                at: FILE_HEADER_BYTES as usize,
                number,
                version: header.version,
                sequence: header.first_sequence,
            }),
            None => Err(bytes),
        }
    }

    /// Reads a file with a damaged header, whose first record has this sequence. Each record
    /// contains the number of its file, so records of another file are not mistaken for records of
    /// this file. The ledger lists the file, so its records have version 2: files of version 1 are
    /// older than the ledger, and no existing file is continued.
    fn without_header(bytes: Vec<u8>, number: u32, sequence: u64) -> FileReader {
        FileReader {
            at: bytes.len().min(FILE_HEADER_BYTES as usize),
            bytes,
            number,
            version: VERSION,
            sequence,
        }
    }

    /// Returns whether the file contains a readable record.
    pub fn is_readable(&self) -> bool {
        let first = self.header_at(self.at).filter(|header| {
            let record = &self.bytes[self.at..self.at + HEADER_BYTES + header.body];
            header.position.sequence == self.sequence && header.holds(record)
        });
        first.is_some() || self.later_records().next().is_some()
    }

    /// Returns the next record. Returns `None` at the end.
    pub fn next_record(&mut self) -> Option<ReadRecord> {
        let (version, sequence) = (self.version, self.sequence);
        let (at, body) = self.next_body()?;
        Some(ReadRecord {
            at,
            sequence,
            record: JournalRecord::decode(body, version),
        })
    }

    /// Passes the next records to `take`, up to the end. In a large file, a thread decodes them ahead.
    pub fn with_records<R>(
        &mut self,
        take: impl FnOnce(&mut dyn Iterator<Item = ReadRecord>) -> R,
    ) -> R {
        let is_large = self.bytes.len() >= LARGE;
        let mut records = std::iter::from_fn(|| self.next_record());
        match is_large {
            true => compute_ahead("seiner-journal", records, take),
            false => take(&mut records),
        }
    }

    /// Returns the position and the body of the next record. Returns `None` at the end.
    pub fn next_body(&mut self) -> Option<(usize, &[u8])> {
        let at = self.at;
        let header = self.header_at(at)?;
        if header.position.sequence != self.sequence {
            return None;
        }
        let end = at + HEADER_BYTES + header.body;
        if !header.holds(&self.bytes[at..end]) {
            return None;
        }
        self.sequence += 1;
        self.at = end;
        Some((at, &self.bytes[at + HEADER_BYTES..end]))
    }

    fn header_at(&self, at: usize) -> Option<Header> {
        let header = Header::read(self.bytes.get(at..at + HEADER_BYTES)?)?;
        let whole = header.position.file == self.number
            && self.bytes.len() - at - HEADER_BYTES >= header.body;
        whole.then_some(header)
    }

    /// Returns the position at which reading stopped.
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// Returns the position of a later valid record if reading stopped at damage and not at the end
    /// of the written records. The header of such a record proves that the missing record was
    /// durable. Without such proof, a power cut may have removed any of the unsynced records and
    /// left others.
    pub fn later_record(&self) -> Option<u64> {
        let mut later = self.later_records().peekable();
        let (first, _) = *later.peek()?;
        let missed = |(_, header): (usize, Header)| header.position.synced_before > self.sequence;
        later.any(missed).then_some(first as u64)
    }

    /// Returns the valid records of this file after the position at which reading stopped.
    fn later_records(&self) -> impl Iterator<Item = (usize, Header)> {
        let marker = self.number.to_le_bytes();
        let mut from = self.at + 1;
        std::iter::from_fn(move || {
            let last = self.bytes.len().saturating_sub(HEADER_BYTES);
            let found = (from..last).find_map(|at| {
                if self.bytes[at + 8..at + 12] != marker {
                    return None;
                }
                let header = self.header_at(at)?;
                let ahead = header.position.sequence.checked_sub(self.sequence)?;
                let holds = header.holds(&self.bytes[at..at + HEADER_BYTES + header.body]);
                (0 < ahead && ahead < 1 << 20 && holds).then_some((at, header))
            });
            if let Some((at, header)) = &found {
                from = at + HEADER_BYTES + header.body;
            }
            found
        })
    }

    /// Continues reading at a position that [`FileReader::later_record`] returned.
    pub fn skip_to(&mut self, at: u64) {
        self.at = at as usize;
        if let Some(header) = self.header_at(self.at) {
            self.sequence = header.position.sequence;
        }
    }

    /// Returns the bytes of the unreadable record at which reading stopped, or 0. The record was
    /// torn by a power cut, or it is damaged. The bytes are its stated length, as far as the file
    /// contains them, plus the bytes of valid records written after it.
    pub fn torn_bytes(&self) -> u64 {
        if let Some((last, header)) = self.later_records().last() {
            return (last + HEADER_BYTES + header.body - self.at) as u64;
        }
        let rest = &self.bytes[self.at..];
        let mark = &rest[..rest.len().min(HEADER_BYTES)];
        if mark.iter().all(|&byte| byte == 0) {
            return 0;
        }
        let claimed = Header::read(rest).map_or(HEADER_BYTES, |header| HEADER_BYTES + header.body);
        claimed.min(rest.len()) as u64
    }

    /// Returns the length of the file.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::files::{JournalWriter, name};
    use seiner_platform::Disk;
    use seiner_platform::sim::SimDisk;
    use std::sync::Arc;

    /// Builds a file of three records, synced after some of them, and erases the second record.
    fn with_a_gap(synced: &[u32]) -> FileReader {
        let disk = Arc::new(SimDisk::new(1));
        let mut writer = JournalWriter::new(disk.clone(), 7, 1 << 16, (1, 0), Vec::new());
        let (mut start, mut end) = (0, 0);
        for record in 1..=3 {
            let bytes = writer.write(1).unwrap();
            if record < 3 {
                (start, end) = (end, end + bytes);
            }
            if synced.contains(&record) {
                writer.sync().unwrap();
            }
        }
        let file = disk.open(&name(1)).unwrap();
        file.write_at(start, &vec![0; (end - start) as usize])
            .unwrap();
        let mut reader = FileReader::open(&*file, 1, 7).unwrap().unwrap();
        assert!(reader.next_body().is_some() && reader.next_body().is_none());
        reader
    }

    #[test]
    fn a_thread_reads_the_same_records_of_a_large_file() {
        let disk = Arc::new(SimDisk::new(1));
        let mut writer = JournalWriter::new(disk.clone(), 7, 1 << 16, (1, 0), Vec::new());
        for _ in 0..5 {
            writer.write(1).unwrap();
        }
        let file = disk.open(&name(1)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        let read = |bytes: Vec<u8>| {
            let mut reader = FileReader::new(bytes, 1, 7).ok().unwrap();
            let found: Vec<_> = reader.with_records(|records| {
                let figures = |read: ReadRecord| (read.at, read.sequence, read.record.is_ok());
                records.map(figures).collect()
            });
            (found, reader.sequence, reader.at())
        };
        let plain = read(bytes.clone());
        assert_eq!((plain.0.len(), plain.1), (5, 6));
        assert!(bytes.len() < LARGE);
        bytes.resize(LARGE, 0);
        assert_eq!(read(bytes), plain);
    }

    /// Two records are written without a sync, and a power cut removes the first of them.
    #[test]
    fn unsynced_records_are_torn_and_not_damaged() {
        for synced in [&[][..], &[1], &[1, 3]] {
            let reader = with_a_gap(synced);
            assert_eq!(reader.later_record(), None);
            let record = reader.torn_bytes() / 2;
            assert_eq!(record, (HEADER_BYTES + 6 + 2 * 7) as u64);
        }
    }

    #[test]
    fn a_missing_record_that_was_synced_is_damaged() {
        let mut reader = with_a_gap(&[2]);
        let later = reader.later_record().unwrap();
        reader.skip_to(later);
        assert!(reader.next_body().is_some());
        assert_eq!((reader.sequence, reader.torn_bytes()), (4, 0));
    }
}
