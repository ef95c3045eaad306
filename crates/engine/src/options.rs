//! Settings of a store: plain data, no components.

use crate::error::Error;
use crate::ledger;
use crate::retention::class::Classes;
use crate::rules::given::Given;
use crate::segment::ALIGNMENT;
use crate::space::{JournalSize, Needs};
use seiner_merge::MergePolicy;
pub use seiner_store::Durability;
use std::time::Duration;

/// Settings of a store.
///
/// Durability, memory and the idle time before sealing belong to this process. All other settings
/// are rules, which are stored with the data. A later start uses the stored rules where
/// [`Options::given`] leaves them open.
#[derive(Clone, Debug)]
pub struct Options {
    /// Durability of acknowledged rows.
    pub durability: Durability,
    /// Memory that the store may use, in bytes: buffers, dictionary, index and caches. At this
    /// limit, the fullest buffers are sealed early. New sources are rejected if the permanent
    /// memory of all sources would exceed nine sixteenths of it.
    pub memory: u64,
    /// B: bytes of a source's buffer before it is sealed into a block. Larger blocks compress
    /// better and are cheaper to read. Smaller blocks need less memory per source.
    pub block_bytes: u32,
    /// R: bytes of a segment.
    pub segment_bytes: u64,
    /// Maximum bytes of the journal, which bounds the duration of a start after a crash.
    pub journal_bytes: u64,
    /// Time without rows after which a source is sealed, so that it does not pin journal files. Full buffers wait for
    /// others, with which they are encoded together, for at most an eighth of it.
    pub idle_seal: Duration,
    /// Maximum bytes of the data directory, with everything in it. `None`: as much as the disk has.
    /// To stay within the limit, the store merges, slows writers, sheds or rejects rows.
    pub disk: Option<u64>,
    /// Bytes left free on the file system, regardless of who fills it.
    pub leave_free: u64,
    /// Um, the share of the budget at which merging begins. Later merging finds more dead data, and
    /// leaves less space for surprises.
    pub merge_from: f64,
    /// Policy that chooses the segments to merge.
    pub policy: MergePolicy,
    /// Bytes that may be written per stored byte so that later reads find larger blocks, in
    /// addition to writes that reclaim space. 0 for none.
    pub extra_writes: f64,
    /// Maximum number of logs that are written side by side, each with blocks that die at about the
    /// same time. More lanes rewrite fewer bytes. Each lane needs memory for a piece of a segment,
    /// and disk space for an index, four times while the journal fills. At most
    /// one lane per 512 KiB of journal is used, but four lanes are always allowed.
    pub lanes: u32,
    /// Retention classes: the sources in each class and how long they are kept.
    pub classes: Classes,
    /// Rules in these options that override the stored rules.
    pub given: Given,
    /// True to apply rules that let data expire sooner than the stored rules.
    pub apply_retention: bool,
    /// Blocks that are encoded together with blocks of other sources.
    pub bundles: Bundling,
    /// Sources whose names and tags are on disk only.
    pub filing: Filing,
    /// True if blocks with few rows of one number never have a line of their own in memory, for
    /// tests. Otherwise they have a line unless memory is short.
    pub small_blocks: bool,
    /// True if sources lose their names and numbers when they have no data left. Otherwise every
    /// source is known for ever, for programs that keep lists by number.
    pub forget: bool,
}

/// Blocks that are encoded together with blocks of other sources, in a bundle. Stores with either kind
/// of block are readable with every setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bundling {
    /// Blocks with few rows, if a bundle takes fewer bytes.
    #[default]
    Smaller,
    /// All blocks with few rows, for tests.
    Always,
    /// None, for comparisons.
    Never,
}

/// Sources whose names and tags are in names files, and no longer in memory. Stores with and without such files are
/// readable with every setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filing {
    /// The oldest sources, if the names and tags of all sources would take more than a tenth of the memory. If the memory
    /// is still short, sources without rows for a while become dormant: a row of such a source reads its name from a file.
    #[default]
    Oldest,
    /// All sources, for tests.
    Always,
    /// None, for comparisons.
    Never,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Interval(Duration::from_millis(100)),
            memory: 256 << 20,
            block_bytes: 8192,
            segment_bytes: 64 << 20,
            journal_bytes: 128 << 20,
            idle_seal: Duration::from_secs(600),
            disk: None,
            leave_free: 0,
            merge_from: 0.95,
            policy: MergePolicy::default(),
            extra_writes: 0.2,
            lanes: 32,
            classes: Classes::default(),
            given: Given::default(),
            apply_retention: false,
            bundles: Bundling::default(),
            filing: Filing::default(),
            small_blocks: false,
            forget: true,
        }
    }
}

impl Options {
    /// Valid range of [`Options::block_bytes`].
    pub const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 256..=64 << 10;

    /// Returns the default memory of programs in bytes: a quarter of the memory that the process
    /// may use (the machine's memory, or the limit of its control group), in MiB, within
    /// [`Options::AUTOMATIC_MEMORY`].
    pub fn automatic_memory() -> u64 {
        Options::memory_share(seiner_platform::memory::usable())
    }

    /// Bounds of [`Options::automatic_memory`]: 128 MiB to 8 GiB.
    pub const AUTOMATIC_MEMORY: std::ops::RangeInclusive<u64> = 128 << 20..=8 << 30;

    fn memory_share(usable: Option<u64>) -> u64 {
        let default = Options::default().memory;
        let share = usable.map_or(default, |usable| (usable >> 22) << 20);
        let (least, most) = Options::AUTOMATIC_MEMORY.into_inner();
        share.clamp(least, most)
    }

    /// Checks whether a store can work with these settings in a directory.
    pub fn check(&self) -> Result<(), Error> {
        self.check_on(ALIGNMENT as u64)
    }

    /// Checks whether a store can work with these settings on a disk with units of `unit` bytes.
    pub(crate) fn check_on(&self, unit: u64) -> Result<(), Error> {
        let invalid = |text: String| Err(Error::Options(text));
        if !Options::BLOCK_BYTES.contains(&self.block_bytes) {
            return invalid(format!(
                "block_bytes = {} is not between {} and {}",
                self.block_bytes,
                Options::BLOCK_BYTES.start(),
                Options::BLOCK_BYTES.end()
            ));
        }
        if !(64 << 10..=2 << 30).contains(&self.segment_bytes) {
            return invalid(format!(
                "segment_bytes = {} is not between 64 KiB and 2 GiB",
                self.segment_bytes
            ));
        }
        if !(64 << 10..=1 << 50).contains(&self.journal_bytes) {
            return invalid(format!(
                "journal_bytes = {} is not between 64 KiB and 1 PiB",
                self.journal_bytes
            ));
        }
        if self.memory < 1 << 20 {
            return invalid(format!("memory = {} is less than 1 MiB", self.memory));
        }
        if !(0.1..=0.99).contains(&self.merge_from) {
            return invalid(format!(
                "merge_from = {} is not between 0.1 and 0.99",
                self.merge_from
            ));
        }
        if !(0.0..=10.0).contains(&self.extra_writes) {
            return invalid(format!(
                "extra_writes = {} is not between 0 and 10",
                self.extra_writes
            ));
        }
        if !(2..=256).contains(&self.lanes) {
            return invalid(format!("lanes = {} is not between 2 and 256", self.lanes));
        }
        let least = self.needs(unit).least_budget();
        if let Some(disk) = self.disk.filter(|&disk| disk < least) {
            return invalid(format!(
                "disk = {disk} bytes is too little: with journal_bytes = {} and segment_bytes = {}, \
                 a store needs {least} bytes; raise `disk`, or lower these two",
                self.journal_bytes, self.segment_bytes
            ));
        }
        match self.durability {
            Durability::Interval(interval) if interval < Duration::from_millis(1) => {
                invalid("an interval must be at least 1 ms; choose `sync`".to_string())
            }
            _ => Ok(()),
        }
    }

    /// Returns the minimum `disk` for a store with these settings in a directory.
    pub fn least_disk(&self) -> u64 {
        self.needs(ALIGNMENT as u64).least_budget()
    }

    /// Returns the sizes that determine the space on a disk with units of `unit` bytes.
    pub(crate) fn needs(&self, unit: u64) -> Needs {
        let journal = JournalSize {
            bytes: self.journal_bytes,
            file: self.journal_file_bytes(),
        };
        let mut classes = self.classes.named().iter();
        Needs {
            budget: self.disk,
            unit,
            segment_bytes: self.segment_bytes,
            lanes: self.lanes,
            journal: (self.durability != Durability::Memory).then_some(journal),
            ledger: ledger::LEAST_SPACE,
            has_levels: classes.any(|class| !class.rollup.is_empty()),
            merge_from: self.merge_from,
        }
    }

    /// Returns the bytes of a write to a segment: the pieces of all lanes together are a small part
    /// of the memory.
    pub(crate) fn piece_bytes(&self) -> u64 {
        let share = self.memory / 8 / u64::from(self.lanes);
        (self.segment_bytes / 16).min(share)
    }

    /// Returns the limits of blocks that are encoded together: a small part of the memory, and of a
    /// segment.
    pub(crate) fn together(&self) -> Together {
        let rows = (self.memory / 512).min(self.segment_bytes / 16);
        Together {
            bundling: self.bundles,
            buffers: (self.memory >> 15).clamp(512, 8192) as usize,
            bytes: rows.clamp(16 << 10, 512 << 10) as usize,
        }
    }

    /// Returns the bytes of a journal file. A file is small relative to the bound, so that the
    /// journal is released in small steps. It is also small relative to the memory, because a start
    /// reads one file at a time.
    pub(crate) fn journal_file_bytes(&self) -> u64 {
        let largest = (self.memory / 16).clamp(64 << 10, 16 << 20);
        (self.journal_bytes / 16).clamp(16 << 10, largest)
    }
}

/// Limits of the blocks that are encoded together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Together {
    /// Blocks that become part of a bundle.
    pub bundling: Bundling,
    /// Maximum number of blocks.
    pub buffers: usize,
    /// Approximate maximum bytes of their rows.
    pub bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the minimum budget was a sum that overflowed.
    #[test]
    fn impossible_sizes_are_rejected_without_overflow() {
        let with = |journal_bytes| Options {
            journal_bytes,
            disk: Some(1 << 30),
            ..Options::default()
        };
        for bytes in [0, (64 << 10) - 1, (1 << 50) + 1, u64::MAX] {
            let error = with(bytes).check_on(4096).unwrap_err().to_string();
            assert!(error.contains("between 64 KiB and 1 PiB"), "{error}");
        }
        let error = with(1 << 50).check_on(4096).unwrap_err().to_string();
        assert!(error.contains("too little"), "{error}");
    }

    #[test]
    fn automatic_memory_is_a_quarter_within_bounds() {
        let share = |usable| Options::memory_share(usable) >> 20;
        assert_eq!(share(Some(4 << 30)), 1 << 10);
        assert_eq!(share(Some((3 << 30) + 12_345)), 768);
        assert_eq!(share(Some(256 << 20)), 128);
        assert_eq!(share(Some(1 << 40)), 8 << 10);
        assert_eq!(share(None), 256);
        assert!(Options::AUTOMATIC_MEMORY.contains(&Options::automatic_memory()));
    }
}
