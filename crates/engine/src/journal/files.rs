//! Journal files: written one after the other, recycled, and let go from the oldest on.

use super::record::{Encoder, HEADER_BYTES, Header, Place, Record};
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
/// Earlier versions that are read.
const FIRST_VERSION: u32 = 1;
/// Magic, version, file number, store, first sequence, checksum.
pub const FILE_HEADER_BYTES: u64 = 8 + 4 + 4 + 8 + 8 + 4;
/// Files kept to be written over: one is in use while the next is needed.
const SPARES: usize = 2;

/// Bytes of memory that are kept for the next record.
const RECORD_KEPT: usize = 2 << 20;

/// The name of a journal file.
pub fn name(number: u32) -> String {
    format!("{PREFIX}{number:08x}")
}

/// The number in a journal file's name.
pub fn number(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()
}

/// What a journal file says about itself.
pub struct FileHeader {
    /// Its number.
    pub number: u32,
    /// The store that it belongs to.
    pub store: u64,
    /// The sequence of its first record.
    pub first_sequence: u64,
    /// The version of its records.
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

    /// Reads a header; `None` where the bytes are none of this version.
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

/// The writing end of the journal.
pub struct JournalWriter {
    disk: Arc<dyn Disk>,
    store: u64,
    file_bytes: u64,
    current: Option<Current>,
    sequence: u64,
    /// Rows in all records before the next.
    rows: u64,
    /// Files that were begun and that the ledger does not list yet.
    pub begun: Vec<(u32, JournalFile)>,
    /// Records with lower sequences are on disk.
    synced_before: u64,
    encoder: Encoder,
    record: Vec<u8>,
    /// Whether the record is not written yet.
    waits: bool,
    spares: Vec<String>,
    next_spare: u32,
    /// Files that are set aside instead of let go.
    pub damaged: Vec<u32>,
    /// Taken in exchange for what is staged.
    pub staging: Staging,
}

struct Current {
    number: u32,
    file: Arc<dyn File>,
    len: u64,
    synced: bool,
}

impl JournalWriter {
    /// A writer whose next record has this sequence, with so many rows in the records before, which are on
    /// disk. `spares` are files to write over.
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

    /// Bytes of memory: the record and what it was made of.
    pub fn memory(&self) -> usize {
        self.record.capacity() + self.staging.memory()
    }

    /// The sequence of the next record.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether a file has taken its share, and rows from now on belong to the next.
    pub fn is_full(&self, number: u32) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.number == number && current.len >= self.file_bytes)
    }

    /// Writes what was taken over into `staging` as one record of a file, and tells how many bytes
    /// that took.
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
            let place = Place {
                file: number,
                sequence: self.sequence,
                synced_before: self.synced_before,
                rows_before: self.rows,
            };
            self.rows += self.staging.rows;
            self.encoder
                .encode(&mut self.staging, place, &mut self.record);
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

    /// Whether a record could not be written for want of room: it is written by the next
    /// [`JournalWriter::write`], before anything else.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Makes durable what was written; answers whether anything was.
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
        // The name first: a file that is written over must not come back under its old name.
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

    /// Copies the damaged files up to a number to names of files that were set aside. The copies are durable on
    /// return. Call this before the ledger says that the files are not needed: a start removes such files.
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

    /// Lets a file go that no block needs any more: keeps it to be written over, or removes it.
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

    /// Whether a file is so long, by a long record, that it is no spare: two of them and the file that
    /// is begun take no more than is charged for them. It must not be cut, for it may come back under
    /// its name with a crash.
    fn is_long(&self, number: u32) -> Result<bool, Error> {
        let context = || format!("looking at {}", name(number));
        let file = self.disk.open(&name(number)).map_err(io_error(context))?;
        let len = file.len().map_err(io_error(context))?;
        Ok(len > self.file_bytes + self.file_bytes / 3)
    }

    /// Removes the files that were kept to be written over.
    pub fn drop_spares(&mut self) -> Result<(), Error> {
        for spare in self.spares.drain(..) {
            self.disk
                .remove(&spare)
                .map_err(io_error(|| format!("removing {spare}")))?;
        }
        Ok(())
    }
}

/// Which journal files there are, and what holds them.
#[derive(Default)]
pub struct Pins {
    files: VecDeque<Pinned>,
    current: u32,
}

struct Pinned {
    number: u32,
    bytes: u64,
    /// Blocks that begin in the file and are not in a sealed segment.
    blocks: u64,
}

impl Pins {
    /// No files; the next is `number`.
    pub fn new(number: u32) -> Pins {
        Pins {
            files: VecDeque::new(),
            current: number,
        }
    }

    /// The file that rows staged now will be written to.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Goes on to a file; for a replay.
    pub fn advance(&mut self, number: u32) {
        self.current = number;
    }

    /// Rows staged from now on go to the next file, if this one has been written to: numbers have
    /// no gaps.
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

    /// A block begins in a file.
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

    /// So many blocks that began in a file are in a sealed segment now.
    pub fn unpin(&mut self, number: u32, blocks: u64) {
        // Without a journal, blocks begin in no file.
        if let Some(file) = self.files.iter_mut().find(|file| file.number == number) {
            file.blocks = file
                .blocks
                .checked_sub(blocks)
                .expect("a block is unpinned once");
        }
    }

    /// A file has grown.
    pub fn grow(&mut self, number: u32, bytes: u64) {
        self.file(number).bytes += bytes;
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The oldest file, if blocks hold it.
    pub fn oldest(&self) -> Option<u32> {
        self.files.front().map(|file| file.number)
    }

    /// The last of the oldest files that nothing holds and that rows no longer go to.
    pub fn last_free(&self) -> Option<u32> {
        let free = |file: &&Pinned| file.blocks == 0 && file.number < self.current;
        let last = self.files.iter().take_while(free).last();
        last.map(|file| file.number)
    }

    /// Takes the oldest file off the list, if its number is at most `last`.
    pub fn take_free(&mut self, last: u32) -> Option<u32> {
        self.files.front().filter(|front| front.number <= last)?;
        self.files.pop_front().map(|file| file.number)
    }
}

/// Whether a file without a header of its own can be let go: it is empty or blank, or it was
/// renamed to be written over and still bears an older number.
pub fn never_begun(bytes: &[u8], number: u32) -> bool {
    let blank = bytes
        .iter()
        .take(FILE_HEADER_BYTES as usize)
        .all(|&byte| byte == 0);
    blank || FileHeader::decode(bytes).is_some_and(|header| header.number != number)
}

/// Contents of a journal file, as far as its header and the ledger show.
pub enum Found {
    /// The header is whole.
    Whole(FileReader),
    /// The header is damaged, and there are records of the file.
    WithoutHeader(FileReader),
    /// No record was written.
    NeverBegun,
    /// The file was written to, and nothing of it can be read.
    Lost(&'static str),
}

impl Found {
    /// Returns the contents of a file with these bytes. `listed`: the entry of the file in the ledger.
    pub fn of(bytes: Vec<u8>, number: u32, store: u64, listed: Option<&JournalFile>) -> Found {
        let bytes = match FileReader::new(bytes, number, store) {
            Ok(reader) => return Found::Whole(reader),
            Err(bytes) => bytes,
        };
        let Some(listed) = listed else {
            // A file whose header never reached the disk has nothing that was acknowledged.
            return match never_begun(&bytes, number) {
                true => Found::NeverBegun,
                false => Found::Lost("its header is damaged"),
            };
        };
        let reader = FileReader::without_header(bytes, number, listed.sequence);
        match reader.is_readable() {
            true => Found::WithoutHeader(reader),
            false => Found::Lost("nothing of it can be read"),
        }
    }
}

/// Reads the records of a journal file one by one.
pub struct FileReader {
    bytes: Vec<u8>,
    at: usize,
    number: u32,
    version: u32,
    /// The sequence that the next record must have.
    pub sequence: u64,
}

impl FileReader {
    /// Reads a file; `None` where it has no header of this store.
    pub fn open(file: &dyn File, number: u32, store: u64) -> std::io::Result<Option<FileReader>> {
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(FileReader::new(bytes, number, store).ok())
    }

    /// Reads the bytes of a file; gives them back where they have no header of this store.
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

    /// Reads a file whose header is damaged, and whose first record has this sequence. Records bear the
    /// number of their file, so none of another file is taken for one of this. The ledger lists the file, so
    /// its records have version 2: files of version 1 are older than the ledger, and no file is written on.
    fn without_header(bytes: Vec<u8>, number: u32, sequence: u64) -> FileReader {
        FileReader {
            at: bytes.len().min(FILE_HEADER_BYTES as usize),
            bytes,
            number,
            version: VERSION,
            sequence,
        }
    }

    /// Whether it has any record.
    pub fn is_readable(&self) -> bool {
        let first = self.header_at(self.at).filter(|header| {
            let record = &self.bytes[self.at..self.at + HEADER_BYTES + header.body];
            header.place.sequence == self.sequence && header.holds(record)
        });
        first.is_some() || self.later_records().next().is_some()
    }

    /// The next record, unless it is malformed, and where it begins; `None` at the end.
    pub fn next_record(&mut self) -> Option<(usize, Result<Record, Short>)> {
        let version = self.version;
        self.next_body()
            .map(|(at, body)| (at, Record::decode(body, version)))
    }

    /// The body of the next record and where it begins; `None` at the end.
    pub fn next_body(&mut self) -> Option<(usize, &[u8])> {
        let at = self.at;
        let header = self.header_at(at)?;
        if header.place.sequence != self.sequence {
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
        let whole =
            header.place.file == self.number && self.bytes.len() - at - HEADER_BYTES >= header.body;
        whole.then_some(header)
    }

    /// Where reading stopped.
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// The place of a later record whose checksum holds, if reading stopped at damage and not at the end
    /// of what was written: some record behind knows that what is missing was on disk. Where none does, a
    /// power cut may have taken any of the records that were not synced, and left others.
    pub fn later_record(&self) -> Option<u64> {
        let mut later = self.later_records().peekable();
        let (first, _) = *later.peek()?;
        let missed = |(_, header): (usize, Header)| header.place.synced_before > self.sequence;
        later.any(missed).then_some(first as u64)
    }

    /// Whole records of this file behind the place where reading stopped.
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
                let ahead = header.place.sequence.checked_sub(self.sequence)?;
                let holds = header.holds(&self.bytes[at..at + HEADER_BYTES + header.body]);
                (0 < ahead && ahead < 1 << 20 && holds).then_some((at, header))
            });
            if let Some((at, header)) = &found {
                from = at + HEADER_BYTES + header.body;
            }
            found
        })
    }

    /// Continues reading at a place that [`FileReader::later_record`] found.
    pub fn skip_to(&mut self, at: u64) {
        self.at = at as usize;
        if let Some(header) = self.header_at(self.at) {
            self.sequence = header.place.sequence;
        }
    }

    /// Whether a record begins where reading stopped that cannot be read: torn while the power went,
    /// or damaged. Answers how many bytes it claims, as far as they are there, with those of records that
    /// were written after it and are whole.
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

    /// The file's length.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::sim::SimDisk;

    /// A file of three records, synced after some of them, of which the second is gone then.
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

    /// Two records were written without a sync, and a power cut took the first of them.
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
    fn a_header_whose_sequence_leaves_no_room_to_count_is_none() {
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
