//! Memory: the store's use of its budget, and the measures before it is exhausted.
//!
//! The *registry* is the permanent memory of each source: name, tags, line and counters. New
//! sources are rejected if the registry would exceed [`REGISTRY_SHARE`]. The rest of the memory
//! belongs to rows. Buffers use what [`SPARE_SHARE`] and all other consumers leave; the fullest
//! buffers are sealed when nothing is left. The log has shares of its own ([`crate::log`]).
//!
//! All memory is counted as allocated: capacities, not lengths.

use super::Head;
use crate::memory::{staged_enough, staging_limit};

/// Maximum fraction of the memory for the registry: numerator and denominator. A batch of new
/// sources may exceed it. For this, a 32nd is left of the nine sixteenths that the documentation
/// states.
const REGISTRY_SHARE: (usize, usize) = (17, 32);
/// Fraction of the memory that is kept free: for the journal's record, frames of the catalog,
/// indexes in progress, and the overhead of the allocator.
const SPARE_SHARE: usize = 8;
/// Fraction of the memory that a batch may always add to buffers.
const BATCH_SHARE: usize = 16;
/// Fraction of the memory for rows of taken buffers that wait for the sealer, within bounds in
/// bytes. Beyond it, writers wait for the sealer.
const SEALING_SHARE: u64 = 64;
const SEALING: (u64, u64) = (64 << 10, 4 << 20);
/// Maximum number of taken buffers that wait, whatever their bytes.
const SEALING_BUFFERS: usize = 16_384;

/// Unfinished work, compared with the limit at which writers wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backlog {
    /// Too little work to run the thread.
    Small,
    /// Enough work to run the thread.
    Large,
    /// As much work as allowed.
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
    /// Returns the memory of names, tags and layouts.
    pub fn dictionary_bytes(&self) -> usize {
        let dictionary = self
            .dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        dictionary.memory() + self.names.memory() + self.layouts.memory()
    }

    /// Returns the permanent memory of all sources.
    fn registry_bytes(&self) -> usize {
        self.dictionary_bytes()
            + self.buffers.line_bytes()
            + self.rows.memory()
            + self.members.memory()
            + self.log_figures.registry_memory
    }

    /// Returns whether the registry has reached its share. Its tables grow by small steps, which
    /// belong to the spare share.
    fn takes_its_share(&self) -> bool {
        let (share, of) = REGISTRY_SHARE;
        self.registry_bytes() > self.options.memory as usize / of * share
    }

    /// Returns the memory accounted for.
    pub fn memory(&self) -> usize {
        self.registry_bytes()
            + self.buffers.slab().page_bytes()
            + self.staging.memory()
            + self.journal_memory
            + self.log_figures.log_memory
            + self.log_figures.query_memory
            + self.sealing.memory()
            + self.sealer_memory
    }

    /// Seals the fullest buffers while memory is short. Each call seals about as much as a batch
    /// adds, so that no writer waits for all of it.
    pub fn relieve_memory(&mut self) {
        const AT_ONCE: usize = 1 << 20;
        self.registry_full = self.takes_its_share();
        let memory = self.options.memory as usize;
        let others = self.memory() - self.buffers.slab().page_bytes();
        let limit = (memory - memory / SPARE_SHARE)
            .saturating_sub(others)
            .max(AT_ONCE.min(memory / BATCH_SHARE));
        // Memory of taken buffers is freed when they are in the log.
        let pages = self.buffers.slab().page_bytes();
        if pages.saturating_sub(self.sealing.slot_bytes()) <= limit {
            return;
        }
        self.buffers.release_idle();
        let pages = self.buffers.slab().page_bytes();
        // Each page serves one size. When sizes change, pages become free only if more buffers are
        // sealed.
        let target = if pages > limit / 8 * 9 {
            limit / 2
        } else {
            limit / 8 * 7
        };
        let goal = target.max(self.live_in_buffers().saturating_sub(AT_ONCE));
        while self.live_in_buffers() > goal && self.untaken() > 0 {
            let bytes = self.buffers.row_bytes() - self.sealing.bytes();
            let mean = (bytes / self.untaken()) as u32;
            self.fullest_cursor = (self.fullest_cursor + 1) % self.buffers.sources() as u32;
            let line = self.buffers.line(self.fullest_cursor);
            if line.rows != 0 && line.bytes >= mean {
                self.seal(self.fullest_cursor);
            }
        }
    }

    /// Returns the backlog of bytes staged for the journal.
    pub fn staged(&self) -> Backlog {
        let (enough, limit) = (staged_enough(&self.options), staging_limit(&self.options));
        Backlog::of(self.staging.bytes(), enough, limit)
    }

    /// Returns the backlog of taken buffers that wait for the sealer.
    pub fn taken(&self) -> Backlog {
        let limit = (self.options.memory / SEALING_SHARE).clamp(SEALING.0, SEALING.1);
        let limit = limit as usize;
        let bytes = Backlog::of(self.sealing.bytes() as usize, limit / 2, limit);
        let buffers = Backlog::of(self.sealing.len(), SEALING_BUFFERS / 2, SEALING_BUFFERS);
        bytes.max(buffers)
    }

    /// Returns whether the maximum number of taken buffers waits for the sealer.
    pub fn is_sealer_behind(&self) -> bool {
        self.taken() == Backlog::Full
    }

    /// Returns whether taken buffers, or unwritten bytes of the log, have reached their share of
    /// the memory.
    pub fn is_much_taken(&self) -> bool {
        self.is_sealer_behind() || self.log_figures.is_log_behind
    }

    /// Returns the bytes of the slots of buffers that were not taken.
    fn live_in_buffers(&self) -> usize {
        let live = self.buffers.slab().live_bytes();
        live.saturating_sub(self.sealing.slot_bytes())
    }

    /// Returns the number of open blocks that were not taken.
    fn untaken(&self) -> u64 {
        self.buffers.open_blocks() - self.sealing.len() as u64
    }

    /// Returns unused pages of buffers to the allocator.
    pub fn release_idle_memory(&mut self) {
        self.buffers.release_idle();
        if self.sealing.len() == 0 {
            self.sealing.shrink();
        }
    }
}
