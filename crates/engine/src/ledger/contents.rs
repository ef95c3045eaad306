//! Contents of the ledger: journal files, segments and losses, and the entries that change them.

use crate::bytes::{Cursor, Short, put_text};
use crate::status::Loss;
use seiner_codec::varint;
use std::collections::BTreeMap;

const JOURNAL_FILE: u8 = 1;
const RELEASED: u8 = 2;
const SEGMENT: u8 = 3;
pub(super) const GONE: u8 = 4;
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
    pub(super) losses: Vec<Loss>,
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

    pub(super) fn contains(&self, loss: &Loss) -> bool {
        let same = |one: &Loss| one.file == loss.file && one.what == loss.what;
        self.losses.iter().any(same)
    }

    pub(super) fn apply(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Short> {
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

    pub(super) fn put(&self, out: &mut Vec<u8>) {
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

pub(super) fn put_journal_file(number: u32, file: &JournalFile, out: &mut Vec<u8>) {
    out.push(JOURNAL_FILE);
    varint::put_u64(u64::from(number), out);
    varint::put_u64(file.sequence, out);
    varint::put_u64(file.rows, out);
}

pub(super) fn put_released(lowest: u32, out: &mut Vec<u8>) {
    out.push(RELEASED);
    varint::put_u64(u64::from(lowest), out);
}

pub(super) fn put_segment(number: u64, note: &SegmentNote, out: &mut Vec<u8>) {
    out.push(SEGMENT);
    varint::put_u64(number, out);
    varint::put_u64(note.blocks, out);
    varint::put_u64(note.rows, out);
    varint::put_i64(note.first, out);
    varint::put_i64(note.last, out);
}

pub(super) fn put_acknowledged(losses: usize, out: &mut Vec<u8>) {
    out.push(ACKNOWLEDGED);
    varint::put_u64(losses as u64, out);
}

pub(super) fn put_loss(loss: &Loss, out: &mut Vec<u8>) {
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
