//! Choice of the buffers to seal: full, idle, or old buffers, and buffers that pin journal files.
//! [`crate::sealing`] describes the steps that follow.

use super::Head;
use crate::buffer::line::OpenBlock;
use crate::handover::Cut;
use crate::retention::visibility::VisibilityFilter;
use crate::sealing::encode::Encoder;
use crate::sealing::queue::Taken;

/// Maximum number of sources examined under one lock.
const SOURCES_A_LOCK: u32 = 512;
/// Maximum number of buffers that are copied under one lock.
const BUFFERS_A_HOLD: usize = 512;
/// Number of sources that a writer examines when the journal nears its bound, and when it has reached it: with very many
/// sources, examining all of them takes seconds, in which nobody else has the lock.
const SOURCES_AT_ONCE: u32 = 8 << 10;
const SOURCES_AT_BOUND: u32 = 512 << 10;
/// Number of sources examined between checks of the sealer's backlog.
const SOURCES_A_LOOK: u32 = 1024;

/// Progress in sealing the blocks that begin in the oldest journal files.
#[derive(Default)]
pub(super) struct Relief {
    /// Source that is examined next.
    pub cursor: u32,
    /// Last of the files whose blocks are being sealed, if any.
    target: Option<u32>,
    /// No open block begins in this file or an earlier one.
    sealed: Option<u32>,
    /// End of the queue of taken buffers when the last of these blocks was taken, if any waited.
    queued: Option<u64>,
}

impl Head {
    /// Moves the open block of a source, if it has one, to the queue of taken buffers.
    pub fn seal(&mut self, source: u32) {
        let open = self.buffers.state(source);
        if open.rows == 0 {
            return;
        }
        let (bytes, rows) = (open.bytes, u32::from(open.rows));
        let (before, ordinal) = self.count_rows(source, rows);
        let slot = self.buffers.detach(source);
        let taken = Taken {
            source,
            number: open.block,
            next: self.next_block,
            layout: self.buffers.layout(source),
            journal_file: open.journal_file,
            rows,
            bytes,
            before,
            ordinal,
            slot,
        };
        self.sealing
            .push(taken, self.buffers.slab().bytes(slot).len());
    }

    /// Seals the open block of a source if its number is below `before`.
    pub fn seal_before(&mut self, source: u32, before: u64) {
        if source < self.sources() && self.buffers.state(source).block < before {
            self.seal(source);
        }
    }

    /// Counts the rows of a source's open block as taken. Returns the numbers of rows before and
    /// after the block. Rows that later rows of the block replace are counted as well, as in the
    /// buffer and the journal. With a smaller count, rows that the ring has expired would return.
    fn count_rows(&mut self, source: u32, rows: u32) -> (u64, u64) {
        let before = self.rows.get(source);
        let after = before + u64::from(rows);
        self.rows.set(source, after);
        (before, after)
    }

    /// Closes open blocks with numbers below `before` to later rows, without sealing them. A
    /// closed block is sealed when its source sends another row.
    pub fn close_blocks(&mut self, before: u64) {
        self.first_block = self.first_block.max(before);
    }

    /// Closes all open blocks to later rows, and directs later rows to another journal file.
    pub fn cut(&mut self) -> Cut {
        self.close_blocks(self.next_block);
        self.pins.rotate();
        Cut {
            block: self.next_block,
            journal_file: self.pins.current(),
        }
    }

    /// Discards open blocks with numbers below `before`, whose rows have expired, of some sources
    /// from `cursor` on. Returns the next cursor, unless all sources were examined.
    pub fn discard_some(&mut self, before: u64, cursor: u32) -> Option<u32> {
        let sources = self.sources();
        let end = sources.min(cursor + SOURCES_A_LOCK);
        for source in cursor..end {
            let open = self.buffers.state(source);
            if open.rows == 0 || open.block >= before {
                continue;
            }
            let (rows, bytes, file) = (u32::from(open.rows), open.bytes, open.journal_file);
            self.count_rows(source, rows);
            let slot = self.buffers.detach(source);
            self.buffers.free(slot, rows, bytes);
            if self.journalled {
                self.pins.unpin(file, 1);
            }
        }
        (end < sources).then_some(end)
    }

    /// Copies the blocks of a source that are in memory and not in the log, oldest first: taken
    /// buffers from the queue position `logged` on, without those that the ring has expired, then
    /// the open block. Other rules hide rows by block number and time.
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

    /// Copies taken buffers for the encoder, up to the position `end` of the queue. Returns whether
    /// another hold of the lock should copy more.
    pub fn copy_taken(&self, end: u64, encoder: &mut Encoder) -> bool {
        let count = end.saturating_sub(self.sealing.front()) as usize;
        let copied = encoder.len();
        let left = count.saturating_sub(copied);
        for (nth, taken) in self.sealing.after(copied).take(left).enumerate() {
            if !encoder.accepts(taken) {
                return false;
            }
            let layout = self.layouts.get(taken.layout);
            let layout = layout.expect("sources have layouts of the store").clone();
            let bytes = self.buffers.detached(taken.slot, taken.bytes);
            encoder.copy(*taken, layout, bytes);
            if nth + 1 == BUFFERS_A_HOLD {
                return true;
            }
        }
        false
    }

    /// Frees the first `count` taken buffers, which are in the log.
    pub fn free_taken(&mut self, count: usize) {
        for _ in 0..count {
            let front = self.sealing.iter().next();
            let slot = front
                .expect("a taken buffer stays queued until it is freed")
                .slot;
            let slot_bytes = self.buffers.slab().bytes(slot).len();
            let taken = self.sealing.pop(slot_bytes);
            let taken = taken.expect("the queue has a front");
            self.buffers.free(taken.slot, taken.rows, taken.bytes);
        }
    }

    /// Seals open blocks of some sources from `cursor` on. Returns the next cursor, unless all
    /// sources were examined.
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

    /// Seals open blocks of a class with numbers below `before`, of some sources from `cursor` on.
    /// Returns the next cursor, unless all sources were examined.
    pub fn seal_slow(&mut self, class: u8, before: u64, cursor: u32) -> Option<u32> {
        let sources = self.sources();
        let end = sources.min(cursor + SOURCES_A_LOCK);
        for source in cursor..end {
            let open = self.buffers.state(source);
            let is_slow = open.rows != 0 && open.block < before;
            if is_slow && self.members.class_of(source) == class {
                self.seal(source);
            }
        }
        (end < sources).then_some(end)
    }

    /// Seals blocks that begin in the oldest journal files when the journal nears its bound. Each
    /// call examines some sources, and more if the bound is reached.
    pub fn relieve_journal(&mut self) {
        if self
            .relief
            .queued
            .is_some_and(|end| self.sealing.front() >= end)
        {
            self.relief.queued = None;
            self.checkpoint_wanted = true;
        }
        let (bytes, bound) = (self.pins.bytes(), self.options.journal_bytes);
        let Some(oldest) = self
            .pins
            .oldest()
            .filter(|&oldest| oldest < self.pins.current())
        else {
            return;
        };
        if self.relief.target.is_none() {
            if bytes < bound / 4 * 3 {
                return;
            }
            // A quarter of the files at once, so that all sources are examined four times while the
            // journal fills.
            let target = oldest + (self.pins.current() - oldest) / 4;
            if Some(target) <= self.relief.sealed {
                // Only a checkpoint is missing.
                self.checkpoint_wanted |= bytes >= bound && self.sealing.len() == 0;
                return;
            }
            self.relief.target = Some(target);
            self.relief.cursor = 0;
        }
        let target = self.relief.target.unwrap_or(oldest);
        let sources = self.sources();
        let count = match bytes >= bound {
            true => SOURCES_AT_BOUND,
            false => SOURCES_AT_ONCE,
        };
        let end = sources.min(self.relief.cursor.saturating_add(count));
        for source in self.relief.cursor..end {
            // The rest follows when the waiting bytes are written.
            if source % SOURCES_A_LOOK == 0 && self.is_much_taken() {
                self.relief.cursor = source;
                return;
            }
            let open = self.buffers.state(source);
            if open.rows != 0 && open.journal_file <= target {
                self.seal(source);
            }
        }
        self.relief.cursor = end;
        if end == sources {
            self.relief.target = None;
            self.relief.sealed = Some(target);
            // Blocks that are still on their way to the log need another checkpoint.
            self.checkpoint_wanted = true;
            self.relief.queued = (self.sealing.len() > 0).then(|| self.sealing.end());
        }
    }

    /// Seals the sources in `range` without a row for `ticks`, and removes their lines.
    pub fn seal_idle(&mut self, range: std::ops::Range<u32>, ticks: u16) {
        for source in range.clone() {
            let open = self.buffers.state(source);
            if open.rows != 0 && self.tick.wrapping_sub(open.touched) >= ticks {
                self.seal(source);
            }
        }
        self.buffers.remove_unused(range, self.tick, ticks);
    }
}
