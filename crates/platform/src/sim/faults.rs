//! Faults of a simulated disk and their probabilities.

use seiner_random::Rng;

/// Probability of an event, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(pub u32);

impl Chance {
    /// Probability 0.
    pub const NEVER: Chance = Chance(0);
    /// Probability 1.
    pub const ALWAYS: Chance = Chance(1_000_000);

    pub(super) fn strikes(self, rng: &mut Rng) -> bool {
        self.0 > 0 && rng.chance(u64::from(self.0), 1_000_000)
    }
}

/// Faults of a [`super::SimDisk`]. The default is no faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Probability that a read fails (EIO).
    pub read_error: Chance,
    /// Probability that a write fails (EIO). Some of the bytes may have been written.
    pub write_error: Chance,
    /// Probability that a sync of a file or of the names fails (EIO). Each unsynced change is then kept or lost
    /// at random, and no later sync changes that.
    pub sync_error: Chance,
    /// Probability that a creation, removal, rename, reservation or change of length fails (EIO) without
    /// effect.
    pub change_error: Chance,
    /// Probability that a write is acknowledged and readable, but never becomes durable, not even by a sync. No
    /// program can survive this fault. Tests use it to check that the loss is detected.
    pub lost_write: Chance,
}
