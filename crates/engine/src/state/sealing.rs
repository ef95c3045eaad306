//! Sealing: rows leave their buffers as blocks, when these are full, idle, old, or in the way.

use super::State;
use crate::block::{self, BlockHead};
use crate::error::Error;
use crate::memory;
use crate::segment::Entry;
use seiner_codec::Effort;
use seiner_model::{Columns, FieldType};

/// Sources that are sealed, at most, before it is asked whether much waits to be written.
const SOURCES_A_LOOK: u32 = 1024;

impl State {
    /// Seals a source's open block, if it has one, into the active segment.
    pub fn seal(&mut self, source: u32) -> Result<(), Error> {
        let line = self.buffers.line(source);
        if line.rows == 0 {
            return Ok(());
        }
        let (number, journal_file) = (line.block, line.journal_file);
        self.have_slot()?;
        let line = self.buffers.line(source);
        let (bytes, accepted) = (u64::from(line.bytes), u32::from(line.rows));
        let layout = self
            .layouts
            .get(line.layout)
            .expect("lines bear layouts of the store");
        let head = BlockHead {
            source,
            number,
            layout: layout.number(),
        };
        let decimal = layout.types() == [FieldType::F64]
            && self.buffers.drain_decimals(source, &mut self.decimals);
        let columns = match decimal {
            true => Columns::default(),
            false => block::sorted(self.buffers.drain(source, layout.types())),
        };
        let times = match decimal {
            true => &self.decimals.times,
            false => &columns.times,
        };
        let rows = times.len() as u32;
        let before_rows = self.retention.rows(source);
        // Rows that others of the block replace count as well, as they did in the buffer and as the journal
        // counts them. Fewer would return rows that the ring has expired.
        let ordinal = self.retention.count(source, accepted);
        let entry = Entry {
            source,
            number,
            first: times[0],
            last: *times.last().expect("a block has rows"),
            rows,
            ordinal,
            since: number,
            before: before_rows,
            late: self.retention.is_late(source, times[0]),
            ..Entry::default()
        };
        let next = self.next_block;
        let expected = self
            .retention
            .death(source, number, next, accepted, bytes, entry.last);
        let death = self.retention.moment().death(expected);
        let lane = self.lanes.lane(death, bytes, self.retention.now());
        let at = self.make_active(lane)?;
        let decimals = &self.decimals;
        let len = self.open[at].add(entry, Some(journal_file), |out| match decimal {
            true => block::encode_decimals(head, decimals, out),
            false => block::encode(head, &columns, Effort::Fast, out),
        });
        self.open[at].replayable += memory::replay_cost(bytes);
        let samples = match decimal {
            true => rows as usize,
            false => columns.fields.iter().map(|field| field.values.len()).sum(),
        };
        self.counters.blocks += 1;
        self.counters.block_bytes += u64::from(len);
        self.counters.block_samples += samples as u64;
        Ok(())
    }

    /// Seals open blocks of sources from `hand` on until much waits to be written; answers where to go
    /// on, if not all were seen.
    pub fn seal_some(&mut self, hand: u32) -> Result<Option<u32>, Error> {
        for source in hand..self.buffers.sources() as u32 {
            if source > hand && source % SOURCES_A_LOOK == 0 && self.is_much_sealed() {
                return Ok(Some(source));
            }
            self.seal(source)?;
        }
        Ok(None)
    }

    /// Seals every open block.
    pub fn seal_all(&mut self) -> Result<(), Error> {
        for source in 0..self.buffers.sources() as u32 {
            self.seal(source)?;
        }
        Ok(())
    }

    /// Seals open blocks that are older than a delete of their source: rows that were replayed,
    /// which later ones must not join.
    pub fn seal_buried(&mut self) -> Result<(), Error> {
        for source in 0..self.buffers.sources() as u32 {
            let line = self.buffers.line(source);
            if line.rows != 0 && self.retention.is_before_delete(source, line.block) {
                self.seal(source)?;
            }
        }
        Ok(())
    }

    /// Seals open blocks of a class that were begun below the middle of what is above its floor: a block
    /// dies by its number, and those of slow sources would go on taking rows when they are dead already.
    pub fn seal_slow(&mut self, class: u8) -> Result<(), Error> {
        let floor = self.retention.floor(class);
        let middle = floor + self.next_block.saturating_sub(floor) / 2;
        for source in 0..self.buffers.sources() as u32 {
            let line = self.buffers.line(source);
            let is_slow = line.rows != 0 && line.block < middle;
            if is_slow && self.retention.class_of(source) == class {
                self.seal(source)?;
            }
        }
        Ok(())
    }

    /// Seals what begins in the oldest journal files when the journal nears its bound: some
    /// sources at a call, all where it has reached it.
    pub fn relieve_journal(&mut self) -> Result<(), Error> {
        const AT_ONCE: u32 = 8192;
        let (bytes, bound) = (self.pins.bytes(), self.options.journal_bytes);
        let Some(oldest) = self
            .pins
            .oldest()
            .filter(|&oldest| oldest < self.pins.current())
        else {
            return Ok(());
        };
        if self.journal_target.is_none() {
            if bytes < bound / 4 * 3 {
                return Ok(());
            }
            // A quarter of the files at once, so that the sources are gone through four times a journal.
            self.journal_target = Some(oldest + (self.pins.current() - oldest) / 4);
            self.journal_hand = 0;
        }
        let target = self.journal_target.unwrap_or(oldest);
        let sources = self.buffers.sources() as u32;
        let end = if bytes >= bound {
            sources
        } else {
            sources.min(self.journal_hand + AT_ONCE)
        };
        for source in self.journal_hand..end {
            // The rest when what waits is written.
            if source % SOURCES_A_LOOK == 0 && self.is_much_sealed() {
                self.journal_hand = source;
                return Ok(());
            }
            let line = self.buffers.line(source);
            if line.rows != 0 && line.journal_file <= target {
                self.seal(source)?;
            }
        }
        self.journal_hand = end;
        if end == sources {
            self.journal_target = None;
            self.chapter_due = true;
        }
        Ok(())
    }

    /// Seals sources among `range` that were silent for `ticks`.
    pub fn seal_idle(&mut self, range: std::ops::Range<u32>, ticks: u16) -> Result<(), Error> {
        for source in range {
            let line = self.buffers.line(source);
            if line.rows != 0 && self.tick.wrapping_sub(line.touched) >= ticks {
                self.seal(source)?;
            }
        }
        Ok(())
    }
}
