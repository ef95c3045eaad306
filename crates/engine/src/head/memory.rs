//! Memory: what the store takes of its budget, and what is done before it is used up.
//!
//! The *registry* is what each source takes for good: its name and tags, its line, its counters. New
//! sources are refused when the registry would take more than [`REGISTRY_SHARE`]. The rest belongs to
//! rows: what [`SPARE_SHARE`] and all other consumers leave is for buffers, of which the fullest are
//! sealed when there is no more. The log has shares of its own ([`crate::log`]).
//!
//! Everything is counted as it is allocated: capacities, not lengths.

use super::Head;
use crate::memory::{staged_enough, staging_limit};

/// The registry takes this part of the memory at most: numerator and denominator. A batch of new sources may
/// exceed it, for which a 32nd is left of the nine sixteenths that the documentation names.
const REGISTRY_SHARE: (usize, usize) = (17, 32);
/// Kept free: the journal's record, frames of the catalog, indexes that are being made, and what the
/// allocator adds.
const SPARE_SHARE: usize = 8;
/// A batch may add this part of the memory to buffers, however short it is.
const BATCH_SHARE: usize = 16;
/// Rows of taken buffers that wait for the sealer take this part, within bounds in bytes; then writers
/// wait for it.
const SEALING_SHARE: u64 = 64;
const SEALING: (u64, u64) = (64 << 10, 4 << 20);
/// The most taken buffers that wait, whatever their bytes.
const SEALING_BUFFERS: usize = 16_384;

/// Unfinished work, compared with the limit at which writers wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backlog {
    /// Less than is worth a run of its thread.
    Small,
    /// Enough for its thread to begin with.
    Large,
    /// As much as may be.
    Full,
}

impl Backlog {
    fn of(amount: usize, enough: usize, limit: usize) -> Backlog {
        match amount {
            _ if amount >= limit => Backlog::Full,
            _ if amount >= enough => Backlog::Large,
            _ => Backlog::Small,
        }
    }
}

impl Head {
    /// Memory of names, tags and layouts.
    pub fn dictionary_bytes(&self) -> usize {
        let dictionary = self
            .dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        dictionary.memory() + self.names.memory() + self.layouts.memory()
    }

    /// Memory of what there is of each source for good.
    fn registry_bytes(&self) -> usize {
        self.dictionary_bytes()
            + self.buffers.line_bytes()
            + self.rows.memory()
            + self.members.memory()
            + self.surroundings.registry_memory
    }

    /// Whether the registry takes its share. Its tables grow by small steps, which belong to the spare.
    fn takes_its_share(&self) -> bool {
        let (share, of) = REGISTRY_SHARE;
        self.registry_bytes() > self.options.memory as usize / of * share
    }

    /// Memory accounted for.
    pub fn memory(&self) -> usize {
        self.registry_bytes()
            + self.buffers.slab().page_bytes()
            + self.staging.memory()
            + self.journal_memory
            + self.surroundings.log_memory
            + self.sealing.memory()
            + self.sealer_memory
    }

    /// Seals the fullest buffers while memory is short, about as much at a call as a batch brings,
    /// so that no writer waits for all of it.
    pub fn relieve_memory(&mut self) {
        const AT_ONCE: usize = 1 << 20;
        self.registry_full = self.takes_its_share();
        let memory = self.options.memory as usize;
        let others = self.memory() - self.buffers.slab().page_bytes();
        let limit = (memory - memory / SPARE_SHARE)
            .saturating_sub(others)
            .max(AT_ONCE.min(memory / BATCH_SHARE));
        // What was taken already is free when it is in the log.
        let pages = self.buffers.slab().page_bytes();
        if pages.saturating_sub(self.sealing.slot_bytes()) <= limit {
            return;
        }
        self.buffers.release_idle();
        let pages = self.buffers.slab().page_bytes();
        // Pages serve one size; when sizes change, only sealing more of them sets pages free.
        let target = if pages > limit / 8 * 9 {
            limit / 2
        } else {
            limit / 8 * 7
        };
        let goal = target.max(self.live_in_buffers().saturating_sub(AT_ONCE));
        while self.live_in_buffers() > goal && self.untaken() > 0 {
            let bytes = self.buffers.row_bytes() - self.sealing.bytes();
            let mean = (bytes / self.untaken()) as u32;
            self.fullest_hand = (self.fullest_hand + 1) % self.buffers.sources() as u32;
            let line = self.buffers.line(self.fullest_hand);
            if line.rows != 0 && line.bytes >= mean {
                self.seal(self.fullest_hand);
            }
        }
    }

    /// Returns how much is staged for the journal.
    pub fn staged(&self) -> Backlog {
        let (enough, limit) = (staged_enough(&self.options), staging_limit(&self.options));
        Backlog::of(self.staging.bytes(), enough, limit)
    }

    /// Returns how many taken buffers wait for the sealer.
    pub fn taken(&self) -> Backlog {
        let limit = (self.options.memory / SEALING_SHARE).clamp(SEALING.0, SEALING.1);
        let limit = limit as usize;
        let bytes = Backlog::of(self.sealing.bytes() as usize, limit / 2, limit);
        let buffers = Backlog::of(self.sealing.len(), SEALING_BUFFERS / 2, SEALING_BUFFERS);
        bytes.max(buffers)
    }

    /// Returns whether as many taken buffers wait for the sealer as may.
    pub fn is_sealer_behind(&self) -> bool {
        self.taken() == Backlog::Full
    }

    /// Returns whether as much was taken, or waits to be written, as memory may hold.
    pub fn is_much_taken(&self) -> bool {
        self.is_sealer_behind() || self.surroundings.is_log_behind
    }

    /// Bytes of the slots of buffers that were not taken.
    fn live_in_buffers(&self) -> usize {
        let live = self.buffers.slab().live_bytes();
        live.saturating_sub(self.sealing.slot_bytes())
    }

    /// Number of open blocks that were not taken.
    fn untaken(&self) -> u64 {
        self.buffers.open_blocks() - self.sealing.len() as u64
    }

    /// Gives pages of buffers that nobody uses back to the allocator.
    pub fn release_idle_memory(&mut self) {
        self.buffers.release_idle();
        if self.sealing.len() == 0 {
            self.sealing.shrink();
        }
    }
}
