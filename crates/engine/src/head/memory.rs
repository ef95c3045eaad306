//! Memory: the store's use of its budget, and the measures before it is exhausted.
//!
//! The *registry* is the permanent memory of each source: name, tags, layout and counters. New
//! sources are rejected if the registry would exceed [`REGISTRY_SHARE`]. The rest of the memory
//! belongs to rows. Buffers use what [`SPARE_SHARE`] and all other consumers leave. When nothing is
//! left, blocks with few rows become small blocks, and the fullest buffers are sealed. The log has shares of its own ([`crate::log`]).
//!
//! All memory is counted as allocated: capacities, not lengths.

use super::Head;
use crate::buffer::line::GROUP;
use crate::buffer::small::SMALL_ROWS;
use crate::memory::{staged_enough, staging_limit};
use crate::options::Filing;

/// Maximum fraction of the memory for the registry: numerator and denominator. A batch of new
/// sources may exceed it. For this, a 32nd is left of the nine sixteenths that the documentation
/// states.
const REGISTRY_SHARE: (usize, usize) = (17, 32);
/// Fraction of the registry's limit for names and tags in memory. Those of more sources move to names files: a query
/// takes longer, but more sources have space.
const PAIRS_SHARE: usize = 5;
/// Part of the registry's share that is left to the row of each filed source, in bytes. More sources have space when tags
/// are on the disk, and each of them may have a row in memory.
const ROW_OF_FILED: usize = 16;
/// Approximate bytes of a dormant source: the layout, counters, and its part of lists; and those of a name: the hash and
/// its place in the table.
const DORMANT: usize = 20;
const NAME: usize = 19;
/// Parts of the registry's limit, in eighths: from the first on, sources become dormant that are idle for long; from the
/// second on, those that are idle for a short time; until the third is left.
const IDLE_LEAVE: usize = 6;
const IDLE_LEAVE_SOON: usize = 7;
const ENOUGH_LEFT: usize = 5;
/// Fraction of the memory that is kept free: for the journal's record, frames of the catalog,
/// indexes in progress, and the overhead of the allocator.
const SPARE_SHARE: usize = 8;
/// Fraction of the memory that is kept for the log: its lists grow while buffers are sealed, and
/// closing a segment takes several times the memory of its list.
const LOG_SHARE: usize = 8;
/// Fraction of the memory that a batch may always add to buffers.
const BATCH_SHARE: usize = 16;
/// Fraction of the memory for rows of taken buffers that wait for the sealer, within bounds in
/// bytes. Beyond it, writers wait for the sealer.
const SEALING_SHARE: u64 = 64;
const SEALING: (u64, u64) = (64 << 10, 4 << 20);
/// Maximum number of taken buffers that wait, whatever their bytes.
const SEALING_BUFFERS: usize = 16_384;

/// Minimum bytes of a source with a line: the line, and a slot of its rows.
const LINE_AND_SLOT: usize = 128;

/// Bytes of buffers that are sealed under one lock while memory is short: a fraction of the memory,
/// up to a limit.
const AT_ONCE_SHARE: usize = 64;
const AT_ONCE: usize = 1 << 20;
/// Groups of lines that are examined under one lock for blocks with few rows.
const GROUPS_AT_ONCE: usize = 512;

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
            + self.buffers.source_bytes()
            + self.rows.memory()
            + self.members.memory()
            + self.idle.memory()
            + self.log_figures.registry_memory
    }

    /// Returns the share of the registry that the sources registered since a moment take. `before` is
    /// the number of registrations at that moment.
    pub fn registered_share(&self, before: u64) -> f64 {
        let (share, of) = REGISTRY_SHARE;
        let limit = self.options.memory as f64 / of as f64 * share as f64;
        let each = self.registry_bytes() as f64 / f64::from(self.sources().max(1));
        (self.registrations() - before) as f64 * each / limit
    }

    /// Returns the number of registrations since the store was opened, and of sources found then.
    pub fn registrations(&self) -> u64 {
        u64::from(self.sources()) + self.counters.reused
    }

    /// Returns whether the registry has reached its share. Its tables grow by small steps, which
    /// belong to the spare share.
    fn takes_its_share(&self) -> bool {
        self.claimed_bytes() > self.registry_limit()
    }

    /// Returns the memory of the registry, and of rows of filed sources that are not dormant.
    fn claimed_bytes(&self) -> usize {
        let (filed, dormant) = self.filed_sources();
        self.registry_bytes() + filed.saturating_sub(dormant) as usize * ROW_OF_FILED
    }

    /// Returns the number of filed sources, and of those of them that are dormant.
    pub fn filed_sources(&self) -> (u64, u64) {
        let dictionary = self.dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        let filed = dictionary.filed().sources().len();
        (
            filed,
            dictionary.present() - u64::from(self.names.sources()),
        )
    }

    /// Returns whether idle sources should become dormant, so that the registry has space for others.
    pub fn should_idle_leave(&self) -> bool {
        self.claims_eighths(IDLE_LEAVE)
    }

    /// Returns whether sources should become dormant that are idle for a short time only.
    pub fn must_idle_leave(&self) -> bool {
        self.claims_eighths(IDLE_LEAVE_SOON)
    }

    /// Returns whether more idle sources should become dormant, once some did.
    pub fn should_more_leave(&self) -> bool {
        self.claims_eighths(ENOUGH_LEFT)
    }

    /// Returns whether the registry has more than its part, and any source can become dormant.
    fn claims_eighths(&self, eighths: usize) -> bool {
        match self.options.filing {
            Filing::Never => false,
            Filing::Oldest => {
                self.claimed_bytes() > self.registry_limit() / 8 * eighths
                    && self.names.sources() > 0
                    && !self.has_rollup()
            }
            Filing::Always => {
                let (filed, dormant) = self.filed_sources();
                filed > dormant
            }
        }
    }

    /// Returns how many of `filed` sources about have their names in memory after a start.
    pub fn named_at_start(&self, filed: u32) -> u32 {
        let limit = self.registry_limit() / 8 * ENOUGH_LEFT;
        let left = limit.saturating_sub(filed as usize * DORMANT);
        let named = left / (NAME + ROW_OF_FILED);
        filed.min(u32::try_from(named).unwrap_or(u32::MAX))
    }

    fn registry_limit(&self) -> usize {
        let (share, of) = REGISTRY_SHARE;
        self.options.memory as usize / of * share
    }

    /// Returns whether sources have levels, or may get some.
    pub fn has_rollup(&self) -> bool {
        let classes = self.members.classes().list();
        self.members.levels() > 0 || classes.iter().any(|class| !class.rollup.is_empty())
    }

    /// Returns whether names and tags should move from memory to files, because they take more than their part of the
    /// registry. Levels are found by the names of their sources, so a store with levels keeps all names.
    pub fn wants_filing(&self) -> bool {
        self.pairs_exceed(1)
    }

    /// Returns whether names and tags take so much more than their part that writers should wait until some are filed.
    /// Otherwise, new sources that come faster than they are filed would be rejected.
    pub fn is_filing_behind(&self) -> bool {
        self.options.filing == Filing::Oldest && self.is_filing_possible && self.pairs_exceed(2)
    }

    /// Notes whether the last attempt to file names succeeded.
    pub fn note_filing(&mut self, is_possible: bool) {
        self.is_filing_possible = is_possible;
    }

    fn pairs_exceed(&self, parts: usize) -> bool {
        if self.options.filing == Filing::Never || self.has_rollup() {
            return false;
        }
        let dictionary = self.dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        let limit = match self.options.filing {
            Filing::Always => 0,
            _ => self.registry_limit() / PAIRS_SHARE * parts,
        };
        dictionary.pair_bytes() > limit
    }

    /// Returns whether no more sources can be registered.
    fn is_registry_at_its_end(&self) -> bool {
        let takes_its_share = self.takes_its_share();
        let dictionary = self.dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        dictionary.is_full() || takes_its_share && !dictionary.has_free_numbers()
    }

    /// Returns the memory accounted for.
    pub fn memory(&self) -> usize {
        self.registry_bytes()
            + self.buffers.block_bytes()
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
        self.registry_full = self.is_registry_at_its_end();
        let at_once = AT_ONCE.min(self.options.memory as usize / AT_ONCE_SHARE);
        let limit = self.block_limit();
        let before = self.block_bytes();
        if !self.make_small(limit) {
            self.end_scarcity(limit);
        }
        if before <= limit {
            return;
        }
        let after = self.block_bytes();
        if after <= limit || before.saturating_sub(after) > at_once / 4 {
            return;
        }
        // Each page serves one size. When sizes change, pages become free only if more buffers are
        // sealed.
        let target = if after > limit / 8 * 9 {
            limit / 2
        } else {
            limit / 8 * 7
        };
        let goal = target.max(self.live_in_buffers().saturating_sub(at_once));
        while self.live_in_buffers() > goal && self.untaken() > 0 && !self.is_sealer_behind() {
            let bytes = self.buffers.row_bytes() - self.sealing.bytes();
            let mean = (bytes / self.untaken()) as u32;
            self.fullest_cursor = (self.fullest_cursor + 1) % self.buffers.sources() as u32;
            let open = self.buffers.state(self.fullest_cursor);
            if open.rows != 0 && open.bytes >= mean {
                self.seal(self.fullest_cursor);
            }
        }
    }

    /// Returns the memory that buffers may use.
    fn block_limit(&self) -> usize {
        let memory = self.options.memory as usize;
        let log = self.log_figures.log_memory;
        let growth = (memory / LOG_SHARE).saturating_sub(log);
        let others = self.memory() - self.buffers.block_bytes() + growth;
        let limit = (memory - memory / SPARE_SHARE).saturating_sub(others);
        limit.max(AT_ONCE.min(memory / BATCH_SHARE))
    }

    /// Returns the memory of buffers without those that were taken, which is freed when they are in
    /// the log.
    fn block_bytes(&self) -> usize {
        let bytes = self.buffers.block_bytes();
        bytes.saturating_sub(self.sealing.slot_bytes())
    }

    /// Prepares for the rows of a journal. If the lines of all sources would exceed the memory for buffers, blocks begin
    /// as small blocks at once.
    pub fn begin_replay(&mut self) {
        let lines = self.sources() as usize * LINE_AND_SLOT;
        if self.options.small_blocks || lines > self.block_limit() {
            self.buffers.set_scarce(true);
        }
    }

    /// Makes blocks with few rows small if memory is short, until it is not or all are small.
    pub fn make_all_small(&mut self) {
        for _ in 0..=self.sources() as usize / GROUP / GROUPS_AT_ONCE {
            let limit = self.block_limit();
            self.make_small(limit);
            if self.block_bytes() <= limit {
                return;
            }
        }
    }

    /// Makes some blocks with few rows small if buffers exceed `limit` bytes and most blocks have few rows. New
    /// blocks begin as small blocks from then on, until [`Head::end_scarcity`]. Returns whether memory is short.
    fn make_small(&mut self, limit: usize) -> bool {
        let is_short = self.block_bytes() > limit && self.has_few_rows();
        if self.options.small_blocks || is_short {
            let layouts = &self.layouts;
            self.buffers.set_scarce(true);
            self.buffers
                .make_small(GROUPS_AT_ONCE, |number| layouts.is_number(number));
            self.buffers.release_idle();
        }
        self.options.small_blocks || is_short
    }

    /// Gives new blocks lines again when nearly all memory for rows is free, or lines are a small part of it.
    fn end_scarcity(&mut self, limit: usize) {
        if self.block_bytes() < limit / 8 || !self.has_few_rows() {
            self.buffers.set_scarce(false);
        }
    }

    /// Returns whether most blocks have so few rows that lines are a large part of the memory.
    fn has_few_rows(&self) -> bool {
        let rows = self.buffers.row_bytes();
        let rows = rows.saturating_sub(self.sealing.bytes());
        rows < self.untaken() * SMALL_ROWS as u64 / 2
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
        // The slots of short buffers are larger than their rows.
        let slots = Backlog::of(self.sealing.slot_bytes(), limit, 2 * limit);
        bytes.max(buffers).max(slots)
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
        let live = self.buffers.live_bytes();
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
