//! What goes wrong, and how often.

use super::SimRng;

/// How often something happens, in millionths of the times that it could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(pub u32);

impl Chance {
    /// Not at all.
    pub const NEVER: Chance = Chance(0);
    /// Every time.
    pub const ALWAYS: Chance = Chance(1_000_000);

    pub(super) fn strikes(self, rng: &mut SimRng) -> bool {
        self.0 > 0 && rng.chance(u64::from(self.0), 1_000_000)
    }
}

/// The faults of a [`super::SimDisk`]; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A read fails (EIO).
    pub read_error: Chance,
    /// A write fails (EIO); some of its bytes may have been written.
    pub write_error: Chance,
    /// A sync of a file or of the names fails (EIO). What was unsynced is then kept or lost by
    /// chance, and no later sync changes that.
    pub sync_error: Chance,
    /// Creating, removing, renaming, reserving or changing a length fails (EIO) without effect.
    pub change_error: Chance,
    /// A write is acknowledged and readable, but never reaches the platter, whatever is synced.
    /// No program can survive this; it serves to test that the loss is noticed.
    pub lost_write: Chance,
}
