//! Table of files on the volume. There are two places for it. One of them has a snapshot and a log of the changes
//! since. When the log has filled its place, the next snapshot goes to the other place.
//!
//! While the volume is not whole, each record gets stripes of its own, so that no stripe with durable data is
//! written.

use crate::blocks::{BLOCK, Blocks};
use crate::format::{Change, HEADER_BYTES, Header, Layout};
use crate::table::Table;
use std::io;
use std::sync::Arc;

/// Writer of the table.
pub struct TableLog {
    blocks: Arc<dyn Blocks>,
    layout: Layout,
    place: usize,
    generation: u64,
    sequence: u64,
    /// Position of the next record, in blocks from the start of the place.
    at: u64,
    /// First write error; nothing is written after it.
    failed: Option<String>,
}

/// Error: the table cannot be read.
pub enum TableError {
    /// The volume failed.
    Io(io::Error),
    /// The contents are not what was written.
    Damage {
        /// Block of the volume.
        block: u64,
        /// Description of the damage.
        what: String,
    },
}

impl From<io::Error> for TableError {
    fn from(error: io::Error) -> TableError {
        TableError::Io(error)
    }
}

impl TableLog {
    /// Creates the table of an empty volume; durable on return.
    pub fn create(blocks: Arc<dyn Blocks>, layout: Layout) -> io::Result<TableLog> {
        // Clears the other place, whose old contents could look like a later snapshot.
        blocks.write(layout.table(0), &[0; BLOCK])?;
        let mut journal = TableLog {
            blocks,
            layout,
            place: 0,
            generation: 0,
            sequence: 0,
            at: 0,
            failed: None,
        };
        journal.rewrite(&[])?;
        Ok(journal)
    }

    /// Reads the table with the later snapshot.
    pub fn read(blocks: Arc<dyn Blocks>, layout: Layout) -> Result<(TableLog, Table), TableError> {
        let mut found = None;
        for place in 0..2 {
            let mut head = vec![0; BLOCK];
            blocks.read(layout.table(place), &mut head)?;
            let header =
                Header::decode(&head, &layout.volume).filter(|header| header.sequence == 0);
            if let Some(header) = header
                && found.is_none_or(|(_, before): (usize, Header)| {
                    before.generation < header.generation
                })
            {
                found = Some((place, header));
            }
        }
        let Some((place, header)) = found else {
            return Err(TableError::Damage {
                block: layout.table(0),
                what: "neither of the two tables of files has a valid snapshot".to_string(),
            });
        };
        let mut bytes = vec![0; layout.table_blocks as usize * BLOCK];
        blocks.read(layout.table(place), &mut bytes)?;
        let mut journal = TableLog {
            blocks,
            layout,
            place,
            generation: header.generation,
            sequence: 0,
            at: 0,
            failed: None,
        };
        let table = journal.replay(&bytes)?;
        Ok((journal, table))
    }

    /// Applies the records of a place in order.
    fn replay(&mut self, bytes: &[u8]) -> Result<Table, TableError> {
        let mut table = Table::default();
        let stripe = self.layout.shape.stripe_blocks;
        loop {
            let places = [self.at, self.at.next_multiple_of(stripe)];
            let found = places
                .into_iter()
                .find_map(|at| Some((at, self.record(bytes, at)?)));
            let Some((at, (header, body))) = found else {
                break;
            };
            let changes = Change::decode_all(body)
                .ok_or_else(|| self.damage("a change that cannot be decoded"))?;
            changes.into_iter().for_each(|change| table.apply(change));
            self.at = at + header.blocks(self.layout.shape);
            self.sequence += 1;
        }
        // Each record was durable before the next was begun, and the changes of a snapshot before its header.
        let next = self.at.next_multiple_of(stripe);
        let behind = (self.at + 1..self.layout.table_blocks).filter(|&at| at != next);
        let later = behind
            .into_iter()
            .any(|at| self.header(bytes, at).is_some());
        match self.sequence == 0 || later {
            true => {
                Err(self.damage("an unreadable record of the table, followed by other records"))
            }
            false => Ok(table),
        }
    }

    fn damage(&self, what: &str) -> TableError {
        TableError::Damage {
            block: self.layout.table(self.place) + self.at,
            what: what.to_string(),
        }
    }

    /// Returns the record at `at` if it is whole and the next in sequence.
    fn record<'a>(&self, bytes: &'a [u8], at: u64) -> Option<(Header, &'a [u8])> {
        let header = self.header(bytes, at)?;
        let start = at as usize * BLOCK + header.body_at(self.layout.shape);
        let body = bytes.get(start..start.checked_add(header.body_bytes as usize)?)?;
        let expected = Header::of(self.generation, self.sequence, body);
        (header == expected).then_some((header, body))
    }

    /// Returns the header at `at` if it belongs to this log and is not before the next in sequence.
    fn header(&self, bytes: &[u8], at: u64) -> Option<Header> {
        let header = Header::decode(bytes.get(at as usize * BLOCK..)?, &self.layout.volume)?;
        let ours = header.generation == self.generation && header.sequence >= self.sequence;
        ours.then_some(header)
    }

    /// Fails if a write of the table has failed before.
    pub fn check(&self) -> io::Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => Err(io::Error::other(format!(
                "an earlier write of the table of files failed, and nothing is written since: {why}"
            ))),
        }
    }

    /// Returns whether a record with `body` bytes of changes fits behind the others, even if it needs stripes of its
    /// own.
    pub fn has_space(&self, body: usize) -> bool {
        let stripe = self.layout.shape.stripe_blocks;
        let blocks = ((HEADER_BYTES + body).div_ceil(BLOCK) as u64).next_multiple_of(stripe);
        self.at.next_multiple_of(stripe) + blocks <= self.layout.table_blocks
    }

    /// Appends a record; durable on return.
    pub fn append(&mut self, body: &[u8]) -> io::Result<()> {
        let header = Header::of(self.generation, self.sequence, body);
        let mut bytes = header.encode(&self.layout.volume);
        bytes.extend_from_slice(body);
        let stripe = self.layout.shape.stripe_blocks;
        let at = match self.blocks.is_whole() {
            true => self.at,
            false => self.at.next_multiple_of(stripe),
        };
        // A stripe without data is written whole, as in a file.
        let end = at + header.blocks(self.layout.shape);
        let last = (end - 1) / stripe * stripe;
        let end = if last >= at { last + stripe } else { end };
        bytes.resize((end - at) as usize * BLOCK, 0);
        let start = self.layout.table(self.place) + at;
        let written = self
            .blocks
            .write(start, &bytes)
            .and_then(|()| self.blocks.flush());
        self.note(written)?;
        self.at = at + header.blocks(self.layout.shape);
        self.sequence += 1;
        Ok(())
    }

    /// Writes a snapshot to the other place; durable on return.
    pub fn rewrite(&mut self, body: &[u8]) -> io::Result<()> {
        let header = Header::of(self.generation + 1, 0, body);
        let shape = self.layout.shape;
        let stripe = shape.stripe_blocks as usize * BLOCK;
        if header.blocks(shape).next_multiple_of(shape.stripe_blocks) > self.layout.table_blocks {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the table of files is full",
            ));
        }
        let (blocks, place) = (self.blocks.clone(), 1 - self.place);
        let start = self.layout.table(place);
        let mut changes = body.to_vec();
        changes.resize(changes.len().next_multiple_of(stripe), 0);
        let mut head = header.encode(&self.layout.volume);
        head.resize(stripe, 0);
        let write = || {
            if !changes.is_empty() {
                blocks.write(start + shape.stripe_blocks, &changes)?;
                blocks.flush()?;
            }
            blocks.write(start, &head)?;
            blocks.flush()
        };
        let written = write();
        self.note(written)?;
        self.place = place;
        self.generation += 1;
        self.sequence = 1;
        self.at = header.blocks(shape);
        Ok(())
    }

    /// Records a failed write and returns the result unchanged. After a failure nothing is written any more, because
    /// it is unknown which bytes reached the volume.
    ///
    /// # Errors
    /// The error of `written`.
    pub fn note(&mut self, written: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &written {
            self.failed.get_or_insert(error.to_string());
        }
        written
    }
}
