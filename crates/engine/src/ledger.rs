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

use crate::aside::copy_aside;
use crate::bytes::{Cursor, Short, put_text};
use crate::catalog::{is_blank, sectors};
use crate::error::{Error, io_error, sync_error};
use crate::space::on_disk;
use crate::status::Loss;
use seiner_codec::{checksum, varint};
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
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

const JOURNAL_FILE: u8 = 1;
const RELEASED: u8 = 2;
const SEGMENT: u8 = 3;
const GONE: u8 = 4;
const LOSS: u8 = 5;
const ACKNOWLEDGED: u8 = 6;
const FORGOTTEN: u8 = 7;
/// Number of acknowledged losses that stay listed.
const KEPT: usize = 1000;

/// Journal file that may be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalFile {
    /// Sequence of the first record.
    pub sequence: u64,
    /// Rows in all earlier records of the store.
    pub rows: u64,
}

/// Segment in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentNote {
    pub blocks: u64,
    pub rows: u64,
    /// First time in the segment, ns. The next field has the last time.
    pub first: i64,
    pub last: i64,
}

/// Contents of the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// Lowest number of a journal file that may be needed.
    pub lowest: u32,
    pub journal: BTreeMap<u32, JournalFile>,
    pub segments: BTreeMap<u64, SegmentNote>,
    /// Losses in the order in which they were found. Acknowledged losses come first. They stay in
    /// the list so that the same damage is not counted twice.
    losses: Vec<Loss>,
    acknowledged: usize,
    /// Number of losses acknowledged long ago, and the rows in them.
    forgotten: (u64, u64),
}

impl Contents {
    /// Returns losses that are not acknowledged.
    pub fn unacknowledged(&self) -> &[Loss] {
        &self.losses[self.acknowledged..]
    }

    /// Returns the number of all losses so far, and of the rows in them.
    pub fn lost(&self) -> (u64, u64) {
        let rows = self.losses.iter().filter_map(|loss| loss.rows);
        (
            self.forgotten.0 + self.losses.len() as u64,
            self.forgotten.1 + rows.sum::<u64>(),
        )
    }

    fn contains(&self, loss: &Loss) -> bool {
        let same = |one: &Loss| one.file == loss.file && one.what == loss.what;
        self.losses.iter().any(same)
    }

    fn apply(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Short> {
        let number = |number: u64| u32::try_from(number).map_err(|_| Short);
        match cursor.u8()? {
            JOURNAL_FILE => {
                let file = number(cursor.varint()?)?;
                let (sequence, rows) = (cursor.varint()?, cursor.varint()?);
                self.journal.insert(file, JournalFile { sequence, rows });
            }
            RELEASED => {
                self.lowest = self.lowest.max(number(cursor.varint()?)?);
                self.journal = self.journal.split_off(&self.lowest);
            }
            SEGMENT => {
                let number = cursor.varint()?;
                let note = SegmentNote {
                    blocks: cursor.varint()?,
                    rows: cursor.varint()?,
                    first: cursor.signed()?,
                    last: cursor.signed()?,
                };
                self.segments.insert(number, note);
            }
            GONE => {
                self.segments.remove(&cursor.varint()?);
            }
            LOSS => {
                let loss = get_loss(cursor)?;
                // An interrupted recovery finds the same loss again.
                if !self.contains(&loss) {
                    self.losses.push(loss);
                }
            }
            ACKNOWLEDGED => {
                self.acknowledged = cursor.count(self.losses.len())?;
                let old = self.acknowledged.saturating_sub(KEPT);
                for loss in self.losses.drain(..old) {
                    self.forgotten.0 += 1;
                    self.forgotten.1 += loss.rows.unwrap_or(0);
                }
                self.acknowledged -= old;
            }
            FORGOTTEN => self.forgotten = (cursor.varint()?, cursor.varint()?),
            _ => return Err(Short),
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.push(FORGOTTEN);
        varint::put_u64(self.forgotten.0, out);
        varint::put_u64(self.forgotten.1, out);
        put_released(self.lowest, out);
        for (&number, file) in &self.journal {
            put_journal_file(number, file, out);
        }
        for (&number, note) in &self.segments {
            put_segment(number, note, out);
        }
        for loss in &self.losses {
            put_loss(loss, out);
        }
        put_acknowledged(self.acknowledged, out);
    }
}

fn put_journal_file(number: u32, file: &JournalFile, out: &mut Vec<u8>) {
    out.push(JOURNAL_FILE);
    varint::put_u64(u64::from(number), out);
    varint::put_u64(file.sequence, out);
    varint::put_u64(file.rows, out);
}

fn put_released(lowest: u32, out: &mut Vec<u8>) {
    out.push(RELEASED);
    varint::put_u64(u64::from(lowest), out);
}

fn put_segment(number: u64, note: &SegmentNote, out: &mut Vec<u8>) {
    out.push(SEGMENT);
    varint::put_u64(number, out);
    varint::put_u64(note.blocks, out);
    varint::put_u64(note.rows, out);
    varint::put_i64(note.first, out);
    varint::put_i64(note.last, out);
}

fn put_acknowledged(losses: usize, out: &mut Vec<u8>) {
    out.push(ACKNOWLEDGED);
    varint::put_u64(losses as u64, out);
}

fn put_loss(loss: &Loss, out: &mut Vec<u8>) {
    out.push(LOSS);
    put_text(&loss.file, out);
    put_text(&loss.what, out);
    varint::put_u64(loss.rows.map_or(0, |rows| rows.saturating_add(1)), out);
    out.push(u8::from(loss.at_most) | u8::from(loss.times.is_some()) << 1);
    if let Some((first, last)) = loss.times {
        varint::put_i64(first, out);
        varint::put_i64(last, out);
    }
    varint::put_i64(loss.found_at, out);
}

fn get_loss(cursor: &mut Cursor<'_>) -> Result<Loss, Short> {
    let (file, what) = (cursor.text()?.to_string(), cursor.text()?.to_string());
    let rows = cursor.varint()?.checked_sub(1);
    let flags = cursor.u8()?;
    let times = match flags & 2 {
        0 => None,
        _ => Some((cursor.signed()?, cursor.signed()?)),
    };
    Ok(Loss {
        file,
        what,
        rows,
        at_most: flags & 1 != 0,
        times,
        found_at: cursor.signed()?,
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::sim::SimDisk;

    const NOTE: SegmentNote = SegmentNote {
        blocks: 3,
        rows: 1000,
        first: -5,
        last: 9_000_000_000,
    };

    fn loss(what: &str) -> Loss {
        Loss {
            file: "journal-00000003".to_string(),
            what: what.to_string(),
            rows: Some(17),
            at_most: false,
            times: Some((1, 2)),
            found_at: 5,
        }
    }

    fn open(disk: &SimDisk) -> (Ledger, LedgerState) {
        Ledger::open(Arc::new(disk.clone()), 7).unwrap()
    }

    #[test]
    fn entries_outlast_a_power_cut() {
        let disk = SimDisk::new(1);
        let (mut ledger, found) = open(&disk);
        assert_eq!(found, LedgerState::Missing);
        ledger.note_segment(4, NOTE);
        ledger.note_segment(5, NOTE);
        ledger.note_gone(4);
        let (sequence, rows) = (9, 100);
        ledger.note_journal_file(3, JournalFile { sequence, rows });
        ledger.note_loss(&loss("a record"));
        ledger.write().unwrap();
        let kept = ledger.contents().clone();
        assert_eq!(kept.segments.keys().copied().collect::<Vec<_>>(), [5]);
        let (ledger, found) = open(&disk.crash());
        assert_eq!((ledger.contents(), found), (&kept, LedgerState::Whole));
    }

    #[test]
    fn a_ledger_stays_small_however_many_segments_come_and_go() {
        let disk = SimDisk::new(1);
        let (mut ledger, _) = open(&disk);
        for number in 0..20_000 {
            ledger.note_segment(number, NOTE);
            if number >= 10 {
                ledger.note_gone(number - 10);
            }
            if number % 7 == 0 {
                ledger.write().unwrap();
                assert!(disk.used() <= ledger.disk_bytes(4096));
            }
        }
        ledger.write().unwrap();
        assert!(disk.files()[0].1 <= LEAST_LIMIT);
        assert_eq!(open(&disk).0.contents().segments.len(), 10);
    }

    #[test]
    fn a_loss_is_kept_until_it_is_acknowledged_and_counted_for_ever() {
        let disk = SimDisk::new(1);
        let (mut ledger, _) = open(&disk);
        ledger.note_loss(&loss("one"));
        ledger.note_loss(&loss("one"));
        ledger.note_loss(&loss("two"));
        ledger.write().unwrap();
        let mut ledger = open(&disk).0;
        assert_eq!(ledger.contents().lost(), (2, 34));
        assert_eq!(ledger.acknowledge(), 2);
        ledger.write().unwrap();
        let mut ledger = open(&disk).0;
        assert!(ledger.contents().unacknowledged().is_empty());
        assert!(!ledger.note_loss(&loss("two")), "it is known");
        ledger.note_loss(&loss("three"));
        assert_eq!(ledger.contents().lost(), (3, 51));
    }

    #[test]
    fn a_flipped_bit_in_the_middle_is_damage_and_no_segment_is_missed_for_it() {
        let disk = SimDisk::new(1);
        let (mut ledger, _) = open(&disk);
        for number in 0..3 {
            ledger.note_segment(number, NOTE);
            ledger.note_loss(&loss(&number.to_string()));
            ledger.write().unwrap();
        }
        disk.flip_bit(NAME, 8 * (ledger.len / 2));
        let (ledger, found) = open(&disk);
        assert!(matches!(found, LedgerState::Damaged(..)), "{found:?}");
        assert!(ledger.contents().segments.is_empty());
        assert_eq!(ledger.contents().unacknowledged().len(), 2);
        assert!(
            disk.files()
                .iter()
                .any(|(name, _)| name == "ledger.damaged")
        );
    }

    /// Seed 512 of the simulator: the file ended within the length of its last record.
    #[test]
    fn a_last_record_that_is_cut_off_anywhere_is_torn() {
        let disk = SimDisk::new(1);
        let (mut ledger, _) = open(&disk);
        ledger.note_segment(1, NOTE);
        ledger.write().unwrap();
        let (kept, start) = (ledger.contents().clone(), ledger.len);
        ledger.note_segment(2, NOTE);
        ledger.write().unwrap();
        let mut bytes = vec![0; ledger.len as usize];
        disk.open(NAME).unwrap().read_at(0, &mut bytes).unwrap();
        for len in start + 1..ledger.len {
            let cut = SimDisk::new(1);
            let file = cut.create(NAME).unwrap();
            file.write_at(0, &bytes[..len as usize]).unwrap();
            let (contents, found, _, _) = read(&cut, 7).unwrap();
            assert_eq!(
                (&contents, found),
                (&kept, LedgerState::Torn),
                "{len} bytes"
            );
        }
    }
}
