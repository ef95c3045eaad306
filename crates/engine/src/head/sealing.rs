//! Buffers on their way to the log: those that are full, idle, old, or in the way are taken. [`crate::sealing`] has
//! the steps that follow.

use super::Head;
use crate::buffer::OpenBlock;
use crate::retention::visibility::VisibilityFilter;
use crate::sealing::encode::Encoder;
use crate::sealing::queue::Taken;

/// Sources that are looked at under one lock, at most.
const SOURCES_A_LOCK: u32 = 512;
/// Sources that are looked at before it is asked whether much waits to be written.
const SOURCES_A_LOOK: u32 = 1024;

impl Head {
    /// Takes a source's open block, if it has one, into the queue of those that become blocks of the log.
    pub fn seal(&mut self, source: u32) {
        let line = self.buffers.line(source);
        if line.rows == 0 {
            return;
        }
        let (number, layout, journal_file) = (line.block, line.layout, line.journal_file);
        let (bytes, rows) = (line.bytes, u32::from(line.rows));
        // Rows that others of the block replace count as well, as they did in the buffer and as the journal
        // counts them. Fewer would return rows that the ring has expired.
        let counted = self.rows.of(source);
        let before = *counted;
        *counted += u64::from(rows);
        let ordinal = *counted;
        let slot = self.buffers.detach(source);
        let taken = Taken {
            source,
            number,
            next: self.next_block,
            layout,
            journal_file,
            rows,
            bytes,
            before,
            ordinal,
            slot,
        };
        self.sealing
            .push(taken, self.buffers.slab().bytes(slot).len());
    }

    /// Copies what a source has in memory and the log has not, oldest first: its taken buffers from the position
    /// `logged` of the queue on, but for those that its ring has expired, and the open one. Other rules hide rows by
    /// block number and time.
    pub fn unsealed(
        &self,
        source: u32,
        logged: u64,
        visibility: &VisibilityFilter,
    ) -> Vec<OpenBlock> {
        let taken = self.sealing.of(source);
        let taken = taken.take_while(|(position, _)| *position >= logged);
        let taken = taken.map(|(_, taken)| taken);
        let taken = taken.filter(|taken| !visibility.is_past(taken.ordinal));
        let taken = taken.map(|taken| OpenBlock {
            number: taken.number,
            layout: taken.layout,
            bytes: self.buffers.detached(taken.slot, taken.bytes).to_vec(),
            rows: taken.rows as usize,
        });
        let mut blocks: Vec<OpenBlock> = taken.collect();
        blocks.reverse();
        blocks.extend(self.buffers.open_block(source));
        blocks
    }

    /// Copies taken buffers for the encoder, from the front of the queue to the position `end` at most.
    pub fn copy_taken(&self, end: u64, encoder: &mut Encoder) {
        let count = end.saturating_sub(self.sealing.front()) as usize;
        for taken in self.sealing.iter().take(count) {
            let layout = self.layouts.get(taken.layout);
            let layout = layout.expect("lines bear layouts of the store").clone();
            let bytes = self.buffers.detached(taken.slot, taken.bytes);
            encoder.copy(*taken, layout, bytes);
            if encoder.is_full() {
                return;
            }
        }
    }

    /// Frees the first `count` taken buffers, which are in the log.
    pub fn free_taken(&mut self, count: usize) {
        for _ in 0..count {
            let front = self.sealing.iter().next();
            let slot = front.expect("a buffer waits until it is freed").slot;
            let slot_bytes = self.buffers.slab().bytes(slot).len();
            let taken = self.sealing.pop(slot_bytes);
            let taken = taken.expect("the queue has a front");
            self.buffers.free(taken.slot, taken.rows, taken.bytes);
        }
    }

    /// Seals open blocks of some sources from `cursor` on. Returns where to go on, if not all were seen.
    pub fn seal_some(&mut self, cursor: u32) -> Option<u32> {
        let sources = self.sources();
        let end = sources.min(cursor + SOURCES_A_LOCK);
        (cursor..end).for_each(|source| self.seal(source));
        (end < sources).then_some(end)
    }

    /// Seals every open block.
    pub fn seal_all(&mut self) {
        for source in 0..self.sources() {
            self.seal(source);
        }
    }

    /// Seals open blocks that are older than a delete of their source: rows that were replayed,
    /// which later ones must not join. `is_deleted` returns it for a source and a block number.
    pub fn seal_deleted(&mut self, is_deleted: impl Fn(u32, u64) -> bool) {
        for source in 0..self.sources() {
            let line = self.buffers.line(source);
            if line.rows != 0 && is_deleted(source, line.block) {
                self.seal(source);
            }
        }
    }

    /// Seals open blocks of a class that were begun before a number, of some sources from `cursor` on.
    /// Returns where to go on, if not all were seen.
    pub fn seal_slow(&mut self, class: u8, before: u64, cursor: u32) -> Option<u32> {
        let sources = self.sources();
        let end = sources.min(cursor + SOURCES_A_LOCK);
        for source in cursor..end {
            let line = self.buffers.line(source);
            let is_slow = line.rows != 0 && line.block < before;
            if is_slow && self.members.class_of(source) == class {
                self.seal(source);
            }
        }
        (end < sources).then_some(end)
    }

    /// Seals what begins in the oldest journal files when the journal nears its bound: some
    /// sources at a call, all where it has reached it.
    pub fn relieve_journal(&mut self) {
        const AT_ONCE: u32 = 8192;
        let (bytes, bound) = (self.pins.bytes(), self.options.journal_bytes);
        let Some(oldest) = self
            .pins
            .oldest()
            .filter(|&oldest| oldest < self.pins.current())
        else {
            return;
        };
        if self.journal_target.is_none() {
            if bytes < bound / 4 * 3 {
                return;
            }
            // A quarter of the files at once, so that the sources are gone through four times a journal.
            self.journal_target = Some(oldest + (self.pins.current() - oldest) / 4);
            self.journal_cursor = 0;
        }
        let target = self.journal_target.unwrap_or(oldest);
        let sources = self.sources();
        let end = if bytes >= bound {
            sources
        } else {
            sources.min(self.journal_cursor + AT_ONCE)
        };
        for source in self.journal_cursor..end {
            // The rest when what waits is written.
            if source % SOURCES_A_LOOK == 0 && self.is_much_taken() {
                self.journal_cursor = source;
                return;
            }
            let line = self.buffers.line(source);
            if line.rows != 0 && line.journal_file <= target {
                self.seal(source);
            }
        }
        self.journal_cursor = end;
        if end == sources {
            self.journal_target = None;
            self.checkpoint_wanted = true;
        }
    }

    /// Seals sources among `range` that were silent for `ticks`.
    pub fn seal_idle(&mut self, range: std::ops::Range<u32>, ticks: u16) {
        for source in range {
            let line = self.buffers.line(source);
            if line.rows != 0 && self.tick.wrapping_sub(line.touched) >= ticks {
                self.seal(source);
            }
        }
    }
}
