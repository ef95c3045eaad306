//! Journal files: written one after another, recycled, and released from the oldest on.

use super::record::{Encoder, HEADER_BYTES, Header, JournalRecord, RecordPosition};
use super::staging::Staging;
use super::{PREFIX, SPARE_PREFIX};
use crate::aside::copy_aside;
use crate::bytes::{COUNT_LIMIT, Cursor, Short};
use crate::error::{Error, io_error, sync_error};
use crate::ledger::JournalFile;
use seiner_codec::checksum;
use seiner_platform::{Disk, File};
use std::collections::VecDeque;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"SEINJRNL";
const VERSION: u32 = 2;
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

/// Journal files, with the number of blocks that pin each of them.
#[derive(Default)]
pub struct Pins {
    files: VecDeque<Pinned>,
    current: u32,
}

struct Pinned {
    number: u32,
    bytes: u64,
    /// Number of blocks that begin in the file and are not in a sealed segment.
    blocks: u64,
}

impl Pins {
    /// Creates an empty list whose next file is `number`.
    pub fn new(number: u32) -> Pins {
        Pins {
            files: VecDeque::new(),
            current: number,
        }
    }

    /// Returns the number of the file that receives rows staged now.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Advances to a file during a replay.
    pub fn advance(&mut self, number: u32) {
        self.current = number;
    }

    /// Directs rows staged from now on to the next file if the current file has been written to.
    /// File numbers have no gaps.
    pub fn rotate(&mut self) {
        if self
            .files
            .back()
            .is_some_and(|last| last.number == self.current && last.bytes > 0)
        {
            self.current += 1;
        }
    }

    fn file(&mut self, number: u32) -> &mut Pinned {
        if self.files.back().is_none_or(|last| last.number < number) {
            self.files.push_back(Pinned {
                number,
                bytes: 0,
                blocks: 0,
            });
        }
        self.files
            .iter_mut()
            .rev()
            .find(|file| file.number == number)
            .expect("files with pins are listed")
    }

    /// Pins the file in which a block begins.
    #[inline]
    pub fn pin(&mut self, number: u32) {
        if let Some(last) = self.files.back_mut()
            && last.number == number
        {
            last.blocks += 1;
            return;
        }
        self.file(number).blocks += 1;
    }

    /// Releases the pins of `blocks` blocks that began in a file and are now in a sealed segment.
    pub fn unpin(&mut self, number: u32, blocks: u64) {
        // Without a journal, blocks do not begin in any file.
        if let Some(file) = self.files.iter_mut().find(|file| file.number == number) {
            file.blocks = file
                .blocks
                .checked_sub(blocks)
                .expect("a block is unpinned once");
        }
    }

    /// Adds to the size of a file.
    pub fn grow(&mut self, number: u32, bytes: u64) {
        self.file(number).bytes += bytes;
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the oldest file, if a block pins it.
    pub fn oldest(&self) -> Option<u32> {
        self.files.front().map(|file| file.number)
    }

    /// Returns the last of the oldest files that no block pins and that receive no more rows.
    pub fn last_free(&self) -> Option<u32> {
        let free = |file: &&Pinned| file.blocks == 0 && file.number < self.current;
        let last = self.files.iter().take_while(free).last();
        last.map(|file| file.number)
    }

    /// Removes the oldest file from the list and returns its number, if the number is at most
    /// `last`.
    pub fn take_free(&mut self, last: u32) -> Option<u32> {
        self.files.front().filter(|front| front.number <= last)?;
        self.files.pop_front().map(|file| file.number)
    }
}

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

    /// Returns the position of the next record and the record itself, or an error if it is
    /// malformed. Returns `None` at the end.
    pub fn next_record(&mut self) -> Option<(usize, Result<JournalRecord, Short>)> {
        let version = self.version;
        self.next_body()
            .map(|(at, body)| (at, JournalRecord::decode(body, version)))
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
    use seiner_platform::sim::SimDisk;

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

    /// Two records are written without a sync, and a power cut removes the first of them.
    #[test]
    fn what_was_not_synced_is_torn_and_not_damaged() {
        for synced in [&[][..], &[1], &[1, 3]] {
            let reader = with_a_gap(synced);
            assert_eq!(reader.later_record(), None);
            let record = reader.torn_bytes() / 2;
            assert_eq!(record, (HEADER_BYTES + 6 + 2 * 7) as u64);
        }
    }

    #[test]
    fn what_a_later_record_says_was_synced_is_damaged() {
        let mut reader = with_a_gap(&[2]);
        let later = reader.later_record().unwrap();
        reader.skip_to(later);
        assert!(reader.next_body().is_some());
        assert_eq!((reader.sequence, reader.torn_bytes()), (4, 0));
    }

    #[test]
    fn a_header_with_an_uncountable_sequence_is_none() {
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
