//! Ledger: the files that the store must have, and the data that it has lost.
//!
//! A missing file cannot be detected from the remaining files. The ledger therefore lists the
//! segments and journal files that recovery must find, and every loss until an operator
//! acknowledges it.
//!
//! Invariant: the ledger never lists a file that a crash can remove. The entry for a file is
//! written after the file and its name are durable. The entry that removes a file from the list is
//! durable before the file is removed. Records are appended. A long ledger is rewritten and
//! replaces the old one. `docs/format/ledger.md` specifies the bytes.

mod contents;
#[cfg(test)]
mod tests;

pub use self::contents::{Contents, JournalFile, SegmentNote};

use self::contents::{
    GONE, put_acknowledged, put_journal_file, put_loss, put_released, put_segment,
};
use crate::aside::copy_aside;
use crate::bytes::Cursor;
use crate::catalog::{is_blank, sectors};
use crate::error::{Error, io_error, sync_error};
use crate::space::on_disk;
use crate::status::Loss;
use seiner_codec::{checksum, varint};
use seiner_platform::{Disk, File};
use std::io;
use std::sync::Arc;

/// Name of the file.
pub const NAME: &str = "ledger";
/// Name under which the file is rewritten.
pub const NEXT: &str = "ledger.next";
const MAGIC: &[u8; 8] = b"SEINLEDG";
const VERSION: u32 = 1;
/// Bytes of the header: magic, version, store, checksum.
const HEADER_BYTES: usize = 8 + 4 + 8 + 4;
/// Bytes of a record without its body: length, sequence, checksum.
const RECORD_BYTES: usize = 4 + 8 + 4;
/// Length below which the file is not rewritten.
const LEAST_LIMIT: u64 = 16 << 10;
/// Disk space for the file and its successor, without their entries for segments.
pub const LEAST_SPACE: u64 = 2 * LEAST_LIMIT;
/// Maximum bytes of the body of a record.
const BODY_LIMIT: usize = 256 << 20;

/// State in which a ledger was found.
#[derive(Debug, PartialEq, Eq)]
pub enum LedgerState {
    /// No ledger exists.
    Missing,
    /// All records are readable.
    Whole,
    /// The last record was being written when the power failed, and nothing depends on it.
    Torn,
    /// Some records are unreadable: offset of the first, and the reason.
    Damaged(u64, String),
}

/// Reads a ledger without changes. Returns contents, state, offset of its end, and next sequence.
pub fn read(disk: &dyn Disk, store: u64) -> Result<(Contents, LedgerState, u64, u64), Error> {
    let context = || format!("reading {NAME}");
    let mut contents = Contents::default();
    let file = match disk.open(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((contents, LedgerState::Missing, 0, 1));
        }
        Err(error) => return Err(io_error(context)(error)),
    };
    let mut bytes = vec![0; file.len().map_err(io_error(context))? as usize];
    file.read_at(0, &mut bytes).map_err(io_error(context))?;
    if bytes.iter().all(|&byte| byte == 0) {
        // The power failed while the ledger was created.
        return Ok((contents, LedgerState::Missing, 0, 1));
    }
    let mut found = match bytes.get(..HEADER_BYTES) == Some(&header(store)[..]) {
        true => LedgerState::Whole,
        false => {
            let what = "its header is damaged, of another version, or of another store";
            LedgerState::Damaged(0, what.to_string())
        }
    };
    let (mut at, mut sequence) = (HEADER_BYTES.min(bytes.len()), 1);
    loop {
        let Some((body, end)) = record_at(&bytes, at, sequence..=sequence).map(|(_, b, e)| (b, e))
        else {
            let later = (at + 1..bytes.len()).find_map(|from| {
                let sequences = sequence + 1..=u64::MAX;
                record_at(&bytes, from, sequences).map(|(sequence, _, _)| (from, sequence))
            });
            let Some((from, next)) = later else {
                match end_of(&bytes, at) {
                    End::Clean => {}
                    End::Torn if found == LedgerState::Whole => found = LedgerState::Torn,
                    End::Torn => {}
                    End::Damaged => {
                        damage(&mut found, at, format!("record {sequence} is damaged"));
                    }
                }
                break;
            };
            let what = format!("records {sequence} to {} are damaged", next - 1);
            damage(&mut found, at, what);
            (at, sequence) = (from, next);
            continue;
        };
        let mut cursor = Cursor(body);
        while !cursor.is_empty() {
            if contents.apply(&mut cursor).is_err() {
                damage(&mut found, at, format!("record {sequence} is malformed"));
                break;
            }
        }
        (at, sequence) = (end, sequence + 1);
    }
    if matches!(found, LedgerState::Damaged(..)) {
        // Files removed from the list by a damaged record would be reported as missing.
        (contents.journal, contents.segments) = Default::default();
    }
    Ok((contents, found, at as u64, sequence))
}

/// Bytes after the last record.
enum End {
    Clean,
    Torn,
    Damaged,
}

/// Classifies the bytes after the last record. An interrupted write lacks whole sectors. An invalid
/// record with all its sectors was damaged later.
fn end_of(bytes: &[u8], at: usize) -> End {
    let used = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    if used <= at {
        return End::Clean;
    }
    let Ok(len) = Cursor(&bytes[at..]).u32() else {
        return End::Torn;
    };
    let end = match len as usize {
        0 => used,
        len => at.saturating_add(RECORD_BYTES).saturating_add(len),
    };
    let lacks = |part: std::ops::Range<usize>| bytes.get(part).is_none_or(is_blank);
    match end > bytes.len() || sectors(at, end).any(lacks) {
        true => End::Torn,
        false => End::Damaged,
    }
}

fn damage(found: &mut LedgerState, at: usize, what: String) {
    if *found == LedgerState::Whole {
        *found = LedgerState::Damaged(at as u64, what);
    }
}

fn header(store: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&store.to_le_bytes());
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

fn encode(sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&sequence.to_le_bytes());
    let sum = checksum(&[&bytes[..], body].concat());
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the record at an offset if its sequence is in the range: sequence, body, end.
fn record_at(
    bytes: &[u8],
    at: usize,
    sequences: std::ops::RangeInclusive<u64>,
) -> Option<(u64, &[u8], usize)> {
    let mut cursor = Cursor(bytes.get(at..)?);
    let len = cursor.u32().ok()? as usize;
    let sequence = cursor.u64().ok()?;
    let sum = cursor.u32().ok()?;
    if len == 0 || len > BODY_LIMIT || !sequences.contains(&sequence) {
        return None;
    }
    let body = cursor.take(len).ok()?;
    let head = &bytes[at..at + RECORD_BYTES - 4];
    (checksum(&[head, body].concat()) == sum).then_some((sequence, body, at + RECORD_BYTES + len))
}

/// Open ledger.
pub struct Ledger {
    disk: Arc<dyn Disk>,
    store: u64,
    file: Option<Arc<dyn File>>,
    len: u64,
    /// Length from which the file is rewritten.
    limit: u64,
    sequence: u64,
    contents: Contents,
    /// Entries that are not yet written.
    pending: Vec<u8>,
}

impl Ledger {
    /// Opens the ledger. A damaged ledger is set aside, and the next write creates a new file.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn open(disk: Arc<dyn Disk>, store: u64) -> Result<(Ledger, LedgerState), Error> {
        let (contents, found, len, sequence) = read(&*disk, store)?;
        let context = || format!("opening {NAME}");
        match disk.open(NEXT) {
            Ok(_) => disk.remove(NEXT).map_err(io_error(context))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error(|| format!("opening {NEXT}"))(error)),
        }
        let file = match &found {
            // A torn ledger is rewritten.
            LedgerState::Missing | LedgerState::Torn => None,
            LedgerState::Whole => {
                let file = disk.open(NAME).map_err(io_error(context))?;
                // Readable is not durable.
                file.sync().map_err(sync_error(context))?;
                Some(file)
            }
            LedgerState::Damaged(..) => {
                // The next write replaces the file. Until then, a start must find its readable
                // part.
                copy_aside(&*disk, NAME)?;
                None
            }
        };
        disk.sync_names().map_err(sync_error(context))?;
        let ledger = Ledger {
            disk,
            store,
            limit: if file.is_some() {
                limit_of(&contents)
            } else {
                0
            },
            file,
            len,
            sequence,
            contents,
            pending: Vec::new(),
        };
        Ok((ledger, found))
    }

    /// Returns the contents, including entries that are not yet written.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Returns the space of the file and its successor on a disk with units of `unit` bytes.
    pub fn disk_bytes(&self, unit: u64) -> u64 {
        let len = self.len + (self.pending.len() + RECORD_BYTES) as u64;
        2 * on_disk(len.max(self.limit).max(LEAST_LIMIT), unit)
    }

    /// Adds a journal file that was begun.
    pub fn note_journal_file(&mut self, number: u32, file: JournalFile) {
        if number >= self.contents.lowest && self.contents.journal.get(&number) != Some(&file) {
            self.note(|out| put_journal_file(number, &file, out));
        }
    }

    /// Removes journal files with numbers below `lowest`, which are not needed.
    pub fn note_released(&mut self, lowest: u32) {
        if lowest > self.contents.lowest {
            self.note(|out| put_released(lowest, out));
        }
    }

    /// Adds a segment in service.
    pub fn note_segment(&mut self, number: u64, segment: SegmentNote) {
        if self.contents.segments.get(&number) != Some(&segment) {
            self.note(|out| put_segment(number, &segment, out));
        }
    }

    /// Adds blocks to the entry of a segment.
    pub fn add_blocks(&mut self, number: u64, more: SegmentNote) {
        let note = match self.contents.segments.get(&number) {
            Some(note) => SegmentNote {
                blocks: note.blocks + more.blocks,
                rows: note.rows + more.rows,
                first: note.first.min(more.first),
                last: note.last.max(more.last),
            },
            None => more,
        };
        self.note_segment(number, note);
    }

    /// Removes a segment that left service.
    pub fn note_gone(&mut self, number: u64) {
        if self.contents.segments.contains_key(&number) {
            self.note(|out| {
                out.push(GONE);
                varint::put_u64(number, out);
            });
        }
    }

    /// Adds a loss unless it is already listed. Returns whether it is new.
    pub fn note_loss(&mut self, loss: &Loss) -> bool {
        let new = !self.contents.contains(loss);
        if new {
            self.note(|out| put_loss(loss, out));
        }
        new
    }

    /// Acknowledges all losses. Returns their number.
    pub fn acknowledge(&mut self) -> u64 {
        let losses = self.contents.unacknowledged().len() as u64;
        if losses > 0 {
            let all = self.contents.losses.len();
            self.note(|out| put_acknowledged(all, out));
        }
        losses
    }

    fn note(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let from = self.pending.len();
        put(&mut self.pending);
        self.contents
            .apply(&mut Cursor(&self.pending[from..]))
            .expect("an entry that was just encoded");
    }

    /// Makes all entries durable.
    ///
    /// # Errors
    /// If the disk fails. Entries that find no space are written by the next call.
    pub fn write(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() && self.file.is_some() {
            return Ok(());
        }
        let record = encode(self.sequence, &self.pending);
        let is_long = self.len + record.len() as u64 > self.limit;
        let file = match self.file.clone() {
            Some(file) if !is_long => file,
            Some(file) => match self.begin() {
                // The file may grow until there is space for a successor.
                Err(error) if error.is_out_of_space() => file,
                result => return result,
            },
            None => return self.begin(),
        };
        let context = || format!("writing {NAME}");
        file.write_at(self.len, &record)
            .map_err(io_error(context))?;
        file.sync().map_err(sync_error(context))?;
        self.len += record.len() as u64;
        self.sequence += 1;
        self.pending.clear();
        Ok(())
    }

    /// Writes a file with the contents as a single record. It replaces the old file.
    fn begin(&mut self) -> Result<(), Error> {
        let context = || format!("writing {NEXT}");
        let mut body = Vec::new();
        self.contents.put(&mut body);
        let mut bytes = header(self.store);
        bytes.extend(encode(1, &body));
        let limit = limit_of(&self.contents);
        let file = self.disk.create(NEXT).map_err(io_error(context))?;
        let written = file
            .reserve(limit)
            .and_then(|()| file.write_at(0, &bytes))
            .map_err(io_error(context));
        if let Err(error) = written {
            if error.is_out_of_space() {
                self.disk.remove(NEXT).map_err(io_error(context))?;
            }
            return Err(error);
        }
        file.sync().map_err(sync_error(context))?;
        self.disk.rename(NEXT, NAME).map_err(io_error(context))?;
        self.disk.sync_names().map_err(sync_error(context))?;
        (self.len, self.limit, self.sequence) = (bytes.len() as u64, limit, 2);
        self.file = Some(file);
        self.pending.clear();
        Ok(())
    }
}

/// Returns twice the length of the contents as one record.
fn limit_of(contents: &Contents) -> u64 {
    let mut body = Vec::new();
    contents.put(&mut body);
    (2 * body.len() as u64).max(LEAST_LIMIT)
}
