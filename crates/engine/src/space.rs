//! Disk budget of a store: pure arithmetic over bytes, without locks, files or waiting.
//!
//! The budget is never exceeded, so bytes are counted before they are on the disk: the journal at
//! its bound, open segments with their reservation, rows in memory with the size of their future
//! blocks, and the output of a merge.
//!
//! ```text
//! budget = used + reserved + headroom        (or less, where others fill the disk)
//! used     = sundry files + journal at its bound + files as they are
//! reserved = output of a merge + roll-up levels + rows in memory
//! ```
//!
//! Assertions check all counts in every build: no count falls below zero or overflows.

use crate::segment::ALIGNMENT;
use seiner_merge::{Fill, Throttle};
use std::time::Duration;

/// Bytes for files that are not counted individually: the lock file and the directory itself.
const SUNDRY: u64 = 128 << 10;
/// Approximate maximum of the bytes that a block adds to its rows when it is sealed.
const BLOCK_HEAD: u64 = 96;
/// Number of journal files without rows: the file that is begun next, and spares.
const JOURNAL_FILES: u64 = 4;
/// Journal bytes per lane. While the journal fills, each lane is checkpointed four times. The index
/// and the last page of a checkpoint take half of [`CHECKPOINT`] on average, a thirtieth of the
/// written bytes.
const JOURNAL_A_LANE: u64 = 512 << 10;
/// Approximate maximum of the bytes that a checkpoint adds to the blocks.
const CHECKPOINT: u64 = 8192;
/// Minimum number of lanes, however small the journal is.
const FEWEST_LANES: u32 = 4;
/// Number of files besides segments whose last unit may be nearly empty: journal, catalogs, clock,
/// rules.
const OTHER_FILES: u64 = 26;
/// Number of segments in the minimum budget in addition to the reserves, so that some can be dead.
const LEAST_SEGMENTS: u64 = 8;
/// Maximum of Um as a share of the writers' space. Merging begins before writers are slowed.
const LATEST_UM: f64 = 0.975;
/// Minimum of Um.
const LEAST_UM: f64 = 0.1;
/// Delay of writers. It begins later than the papers' because merging begins at 0.95 or later, up to 0.987 of
/// the writers' space if much is live.
const THROTTLE: Throttle = Throttle { ul: 0.99, uh: 1.0 };
/// Bytes for which a writer waits [`Throttle::delay_s`].
const THROTTLE_BYTES: f64 = (1 << 20) as f64;

/// Bytes of the block in which a file system records where the pieces of a file are, if they are more
/// than its inode can hold. An open segment may get one with any write; a sealed one is measured.
pub const FILE_MAP: u64 = 4096;

/// Returns the bytes that a file of `bytes` occupies on a disk that allocates whole units.
pub fn on_disk(bytes: u64, unit: u64) -> u64 {
    let whole = bytes.checked_next_multiple_of(unit);
    whole.expect("a file is shorter than 2^63 bytes")
}

/// Returns the delay of writers, in seconds for each MiB, when they have used `used` of `limit` bytes.
pub fn delay_s(used: u64, limit: u64) -> f64 {
    THROTTLE.delay_s(used as f64 / limit.max(1) as f64)
}

/// Returns the bytes reserved for the future blocks of rows in memory.
pub fn rows_reserve(load: &Load) -> u64 {
    sum(&[load.rows, load.blocks * BLOCK_HEAD])
}

/// Sizes from the settings of a store and its disk. They determine all reserves.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Bytes that the store may occupy. `None` means the whole disk.
    pub budget: Option<u64>,
    /// Bytes of the disk's allocation unit.
    pub unit: u64,
    /// Bytes of a segment, R.
    pub segment_bytes: u64,
    /// Maximum number of lanes in the settings.
    pub lanes: u32,
    /// Sizes of the journal, if there is one.
    pub journal: Option<JournalSize>,
    /// Minimum bytes of the ledger's files.
    pub ledger: u64,
    /// True if some class makes roll-up levels.
    pub has_levels: bool,
    /// Fill from which on segments are merged, Um.
    pub merge_from: f64,
}

/// Sizes of the journal in bytes.
#[derive(Clone, Copy, Debug)]
pub struct JournalSize {
    /// Bound of all files together, without spares.
    pub bytes: u64,
    /// Bytes reserved for a file when it is begun.
    pub file: u64,
}

impl Needs {
    /// Returns the maximum bytes of the journal on the disk.
    pub fn journal_space(&self) -> u64 {
        self.journal
            .map_or(0, |journal| journal.bytes + JOURNAL_FILES * journal.file)
    }

    /// Returns the number of lanes: the number in the settings, or fewer if the journal is small.
    pub fn lanes(&self) -> u32 {
        let allowed = self
            .journal
            .map_or(u64::MAX, |journal| journal.bytes / JOURNAL_A_LANE);
        let allowed = allowed.clamp(u64::from(FEWEST_LANES), u64::from(u32::MAX));
        self.lanes.min(allowed as u32)
    }

    /// Returns the bytes reserved for merging: the output of one merge with the maps of its files, and
    /// checkpoints.
    pub fn merge_reserve(&self) -> u64 {
        2 * (self.segment_bytes + FILE_MAP) + u64::from(self.lanes()) * CHECKPOINT
    }

    /// Returns the bytes reserved for roll-up passes. A pass frees more bytes than it uses.
    pub fn rollup_reserve(&self) -> u64 {
        match self.has_levels {
            true => self.segment_bytes.max(self.budget.unwrap_or(0) / 64),
            false => 0,
        }
    }

    /// Returns the bytes left empty at the ends of files where units are larger than pages.
    fn unit_waste(&self) -> u64 {
        OTHER_FILES * self.unit.saturating_sub(ALIGNMENT as u64)
    }

    /// Returns the size below which smaller segments waste more space than they save. The open
    /// segment of each lane wastes half of its bytes, and each of the C/s segments has an index and
    /// ends that fill no unit. The sum is minimal at √(2wC/lanes), and a quarter larger at half of
    /// that size.
    pub fn thrifty_segment(&self) -> u64 {
        let waste = 3.0 / 2.0 * self.unit as f64 * self.budget.unwrap_or(0) as f64;
        (2.0 * waste / f64::from(self.lanes())).sqrt() as u64 / 2
    }

    /// Returns the minimum budget of a working store: journal, reserves, some segments with rows,
    /// and as many dead segments.
    pub fn least_budget(&self) -> u64 {
        let others = SUNDRY + self.unit_waste() + self.journal_space() + self.ledger;
        let reserves = self.merge_reserve() + self.rollup_reserve();
        others + reserves + LEAST_SEGMENTS * self.segment_bytes
    }
}

/// Bytes that change with every row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of open segments on the disk, including their reservation.
    pub open: u64,
    /// Bytes in journal files.
    pub journal: u64,
    /// Bytes accepted for the journal that are not yet in its files.
    pub staged: u64,
    /// Number of journal files.
    pub journal_files: u64,
    /// Bytes of rows in buffers.
    pub rows: u64,
    /// Number of blocks that these rows will become.
    pub blocks: u64,
}

/// Bytes of a store's files, by kind, and the budget that they share.
#[derive(Clone, Debug)]
pub struct Space {
    needs: Needs,
    sealed: u64,
    /// Part of `sealed`: segments that a merge has rewritten. The next checkpoints free them.
    merged: u64,
    retired: u64,
    aside: u64,
    catalog: u64,
    ledger: u64,
    names: u64,
    /// Bytes that the store could occupy beside the files of other programs.
    on_disk: u64,
}

impl Space {
    /// Creates the counts of a store without files.
    pub fn new(needs: Needs) -> Space {
        assert!(needs.unit > 0, "a disk allocates units of some bytes");
        let least = needs.least_budget();
        assert!(
            needs.budget.is_none_or(|budget| budget >= least),
            "a budget is checked before a store is opened: {needs:?} needs {least} bytes"
        );
        Space {
            needs,
            sealed: 0,
            merged: 0,
            retired: 0,
            aside: 0,
            catalog: 0,
            ledger: 0,
            names: 0,
            on_disk: u64::MAX,
        }
    }

    // ---- bookings

    /// Counts a segment of `bytes` that is sealed.
    pub fn seal(&mut self, bytes: u64) {
        add(&mut self.sealed, bytes);
    }

    /// Replaces the bytes of sealed segments that a merge has rewritten.
    pub fn note_merged(&mut self, bytes: u64) {
        self.merged = bytes;
    }

    /// Moves a sealed segment of `bytes` to those that are out of service and not deleted yet.
    pub fn retire(&mut self, bytes: u64) {
        take(&mut self.sealed, bytes, "sealed segments");
        add(&mut self.retired, bytes);
    }

    /// Removes a retired segment of `bytes`, whose file is deleted.
    pub fn delete(&mut self, bytes: u64) {
        take(&mut self.retired, bytes, "retired segments");
    }

    /// Moves a retired segment of `bytes` to the damaged files that are set aside.
    pub fn set_aside(&mut self, bytes: u64) {
        self.delete(bytes);
        add(&mut self.aside, bytes);
    }

    /// Replaces the bytes of files that are set aside, as they were found on the disk.
    pub fn note_aside(&mut self, bytes: u64) {
        self.aside = bytes;
    }

    /// Replaces the bytes of the catalog's files.
    pub fn note_catalog(&mut self, bytes: u64) {
        self.catalog = bytes;
    }

    /// Replaces the bytes of the ledger's files, its successor included.
    pub fn note_ledger(&mut self, bytes: u64) {
        self.ledger = bytes;
    }

    /// Returns the bytes of names files.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Replaces the bytes of names files.
    pub fn note_names(&mut self, bytes: u64) {
        self.names = bytes;
    }

    /// Sets the free bytes of the disk. `None` means unknown. `leave_free` bytes must stay free.
    pub fn note_free(&mut self, free: Option<u64>, leave_free: u64, load: &Load) {
        // Bytes that are charged and not written yet are among the free ones.
        let written = self.used(load) - self.journal_charge(load) + load.journal;
        self.on_disk = match free {
            Some(free) => written.saturating_add(free).saturating_sub(leave_free),
            None => u64::MAX,
        };
    }

    // ---- sums

    /// Returns the bytes of segments that a merge has rewritten and that are not yet retired.
    pub fn merged(&self) -> u64 {
        self.merged
    }

    /// Returns the bytes of retired segments, which may still have readers.
    pub fn retired(&self) -> u64 {
        self.retired
    }

    /// Returns the bytes that the store may occupy: the setting, or less if the disk has less.
    pub fn budget(&self) -> u64 {
        self.needs.budget.unwrap_or(u64::MAX).min(self.on_disk)
    }

    /// Returns whether other programs have filled the disk so far that the budget cannot be used
    /// or, without a budget, that no store could work in the rest. Data must not be shed for that
    /// reason.
    pub fn is_crowded(&self) -> bool {
        let wanted = self.needs.budget;
        self.on_disk < wanted.unwrap_or_else(|| self.needs.least_budget())
    }

    /// Returns the bytes that the store occupies. Bytes are counted before they are written.
    pub fn used(&self, load: &Load) -> u64 {
        sum(&[
            SUNDRY,
            self.needs.unit_waste(),
            self.journal_charge(load),
            self.files(load),
        ])
    }

    /// Returns [`Space::used`] without the segments that a merge has rewritten. They can be freed whenever
    /// their space is needed, so writers are not slowed because of them.
    pub fn used_after_merges(&self, load: &Load) -> u64 {
        let used = self.used(load).checked_sub(self.merged);
        used.expect("merged segments are among the sealed ones")
    }

    /// Returns the part of [`Space::used`] that is in files, including reserved bytes of files. The
    /// rest is allotted to the journal up to its bound, and to small files.
    pub fn used_by_files(&self, load: &Load) -> u64 {
        let file = self.needs.journal.map_or(0, |journal| journal.file);
        let given = load.journal_files * file;
        let journal = given.max(load.journal).min(self.journal_charge(load));
        let files = sum(&[self.files(load), journal]);
        assert!(
            files <= self.used(load),
            "files are counted before they are written"
        );
        files
    }

    /// Returns the bytes that writers must not use.
    pub fn reserved(&self, load: &Load) -> u64 {
        let (merge, rollup) = (self.needs.merge_reserve(), self.needs.rollup_reserve());
        sum(&[merge, rollup, rows_reserve(load)])
    }

    /// Returns the maximum bytes that writers may use: the budget without reserves, at least 1.
    pub fn limit(&self, load: &Load) -> u64 {
        let reserved = self.reserved(load);
        self.budget().saturating_sub(reserved).max(1)
    }

    /// Returns the bytes that writers may still use.
    pub fn headroom(&self, load: &Load) -> u64 {
        let (budget, taken) = (self.budget(), sum(&[self.used(load), self.reserved(load)]));
        let headroom = budget.saturating_sub(taken);
        assert!(
            headroom == 0 || sum(&[taken, headroom]) <= budget,
            "{taken} bytes taken and {headroom} for writers are more than {budget}"
        );
        headroom
    }

    /// Returns the unused bytes of the budget, including the reserves. A merge may use the
    /// reserves.
    pub fn free_space(&self, load: &Load) -> u64 {
        self.budget().saturating_sub(self.used(load))
    }

    /// Returns whether a roll-up pass may write although writers wait. A pass uses its own reserve.
    pub fn has_space_for_rollup(&self, load: &Load) -> bool {
        let others = self.reserved(load) - self.needs.rollup_reserve();
        sum(&[self.used(load), others]) < self.budget()
    }

    /// Returns the fill for merge policies if `live` bytes are live.
    pub fn fill(&self, load: &Load, live: u64) -> Fill {
        let (budget, reserved) = (self.budget(), self.reserved(load));
        // In a small store, or one with many rows in memory, writers would stop before merging began.
        let writers = budget.saturating_sub(sum(&[reserved, 2 * self.needs.segment_bytes]));
        let latest = (LATEST_UM * writers as f64 / budget as f64).max(LEAST_UM);
        Fill {
            budget,
            used: self.used(load),
            live,
            reserved,
            um: self.needs.merge_from.min(latest),
        }
    }

    /// Returns the bytes charged for the journal: its bound, and the bytes beyond the bound. Writers
    /// stage more rows while a record is written, and a record may be longer than a file.
    fn journal_charge(&self, load: &Load) -> u64 {
        self.needs.journal.map_or(0, |journal| {
            let coming = sum(&[load.journal, load.staged]);
            let longer = coming.saturating_sub(journal.bytes);
            sum(&[self.needs.journal_space(), longer])
        })
    }

    /// Returns the bytes of files that are counted with their present length.
    fn files(&self, load: &Load) -> u64 {
        let (sealed, retired, aside) = (self.sealed, self.retired, self.aside);
        let lists = sum(&[self.catalog, self.ledger, self.names]);
        sum(&[lists, sealed, retired, aside, load.open])
    }
}

fn add(count: &mut u64, bytes: u64) {
    *count = sum(&[*count, bytes]);
}

fn take(count: &mut u64, bytes: u64, of: &str) {
    let left = count.checked_sub(bytes);
    *count = left.unwrap_or_else(|| panic!("{bytes} bytes are taken from {count} bytes of {of}"));
}

fn sum(parts: &[u64]) -> u64 {
    let add = |sum: u64, &part: &u64| sum.checked_add(part);
    let sum = parts.iter().try_fold(0, add);
    sum.unwrap_or_else(|| panic!("the sum of {parts:?} bytes overflows"))
}

/// Delay that writers owe for the bytes they wrote into a nearly full store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Debt {
    seconds: f64,
    charged: u64,
}

impl Debt {
    /// Charges for the bytes written since the last call, at `delay_s` per MiB. `written` is the
    /// number of all bytes so far. Returns the delay that is owed, at most 1 s. When there is space
    /// again, no delay is owed.
    pub fn charge(&mut self, written: u64, delay_s: f64) -> Duration {
        let bytes = written.saturating_sub(std::mem::replace(&mut self.charged, written));
        self.seconds = match delay_s > 0.0 {
            true => self.seconds + delay_s * bytes as f64 / THROTTLE_BYTES,
            false => 0.0,
        };
        Duration::from_secs_f64(self.seconds.min(1.0))
    }

    /// Clears the delay. A writer sleeps for this delay now.
    pub fn clear(&mut self) {
        self.seconds = 0.0;
    }
}

#[cfg(test)]
mod tests;
