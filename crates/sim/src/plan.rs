//! What a run is about: the settings and the sort of trouble, drawn from the seed.

use seiner_engine::{Durability, Options};
use seiner_platform::sim::SimRng;
use std::time::Duration;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The program is closed and opened, no more.
    None,
    /// The program is killed and the power fails, at any operation, start-up included.
    Crashes,
    /// Reads, writes and syncs fail, and crashes on top.
    Errors,
    /// The disk is full, and crashes on top.
    Full,
    /// Bits turn over at rest.
    Damage,
}

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What goes wrong.
    pub trouble: Trouble,
    /// The settings of the store.
    pub options: Options,
    /// How many sources there are.
    pub sources: u64,
    /// How many steps are taken.
    pub steps: u64,
    /// How many rows a batch has at most.
    pub batch_rows: u64,
    /// Whether some rows are to be refused.
    pub flawed: bool,
}

impl Plan {
    /// The plan of a seed's run.
    pub fn draw(rng: &mut SimRng) -> Plan {
        let trouble = match rng.below(20) {
            0 => Trouble::None,
            1..=11 => Trouble::Crashes,
            12..=14 => Trouble::Errors,
            15 | 16 => Trouble::Full,
            _ => Trouble::Damage,
        };
        let durability = match rng.below(10) {
            0..3 => Durability::Sync,
            3..8 => Durability::Interval(Duration::from_millis(100)),
            _ => Durability::Memory,
        };
        let options = Options {
            durability,
            memory: *rng.pick(&[1 << 20, 4 << 20, 64 << 20]),
            block_bytes: *rng.pick(&[256, 512, 1024, 4096]),
            segment_bytes: *rng.pick(&[64 << 10, 64 << 10, 256 << 10]),
            journal_bytes: *rng.pick(&[64 << 10, 64 << 10, 1 << 20]),
            idle_seal: Duration::from_secs(*rng.pick(&[1, 60, 600])),
            ..Options::default()
        };
        Plan {
            trouble,
            options,
            sources: *rng.pick(&[1, 2, 5, 20, 100]),
            steps: if rng.chance(1, 20) {
                500
            } else {
                rng.between(20, 160)
            },
            batch_rows: *rng.pick(&[1, 4, 30, 30, 150, 150, 400]),
            flawed: rng.chance(1, 2),
        }
    }

    /// Whether what was accepted survives a crash in the order of acceptance.
    pub fn journals(&self) -> bool {
        self.options.durability != Durability::Memory
    }

    /// Whether programs are killed and power fails.
    pub(crate) fn crashes(&self) -> bool {
        !matches!(self.trouble, Trouble::None | Trouble::Damage)
    }
}
