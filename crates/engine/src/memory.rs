//! Sizes derived from the memory budget.

use crate::options::Options;

/// Memory that a replayed block needs in addition to its rows: the rest of its slot, its entry in a
/// list, and its head when it is sealed.
const BLOCK_COST: u64 = 192;
/// Fractions of the memory for a frame of the catalog and for staged bytes, within bounds.
const FRAME_SHARE: u64 = 64;
const FRAME: (u64, u64) = (64 << 10, 4 << 20);
/// Bounds of the staged bytes that are written before the next commit is due.
const STAGED_SHARE: u64 = 64;
const STAGED: (u64, u64) = (32 << 10, 1 << 20);
/// Bounds of the staged bytes at which writers wait. A slow sync, or many new names, may delay a
/// commit by a quarter of a second. With much memory, writers do not notice the delay. The upper
/// bound keeps the journal close to its own bound.
const STAGING_SHARE: u64 = 128;
const STAGING_JOURNAL_SHARE: u64 = 16;
const STAGING_MOST: u64 = 16 << 20;

/// Returns the number of staged bytes that are written to the journal even if no commit is due.
pub fn staged_enough(options: &Options) -> usize {
    (options.memory / STAGED_SHARE).clamp(STAGED.0, STAGED.1) as usize
}

/// Returns the number of staged bytes at which writers wait for the journal.
pub fn staging_limit(options: &Options) -> usize {
    let memory = (options.memory / STAGING_SHARE).min(STAGING_MOST);
    let share = memory.min(options.journal_bytes / STAGING_JOURNAL_SHARE);
    (share as usize).max(2 * staged_enough(options))
}

/// Returns the approximate maximum bytes of names in a frame of the catalog.
pub fn frame_limit(options: &Options) -> usize {
    (options.memory / FRAME_SHARE).clamp(FRAME.0, FRAME.1) as usize
}

/// Returns the memory of a block if it is replayed.
pub fn replay_cost(row_bytes: u64) -> u64 {
    row_bytes.next_power_of_two() + BLOCK_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(memory: u64) -> Options {
        Options {
            memory,
            ..Options::default()
        }
    }

    #[test]
    fn shares_of_the_memory_stay_within_bounds() {
        let of = |memory| (staging_limit(&with(memory)), frame_limit(&with(memory)));
        assert_eq!(of(1 << 20), (64 << 10, 64 << 10));
        assert_eq!(of(32 << 20), (1 << 20, 512 << 10));
        assert_eq!(of(1 << 30), (8 << 20, 4 << 20));
        assert_eq!(
            of(8 << 30),
            (8 << 20, 4 << 20),
            "a sixteenth of the journal"
        );
        assert_eq!(staged_enough(&with(8 << 30)), 1 << 20);
    }

    #[test]
    fn the_replay_cost_of_a_block_includes_its_slot_and_lists() {
        assert_eq!(replay_cost(256), 256 + 192);
        assert_eq!(replay_cost(257), 512 + 192);
    }
}
