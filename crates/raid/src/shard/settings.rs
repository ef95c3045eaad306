//! Settings of the state machine.

use crate::merging::Merging;
use crate::request::Nanos;

/// Behaviour of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardSettings {
    /// Strategy that decides which writes are held.
    pub merging: Merging,
    /// Maximum time for which a write is held, ns.
    pub longest_hold: Nanos,
    /// Mean number of concurrent write operations per member. Further stripes queue in the array, where later
    /// writes can join them.
    pub member_depth: usize,
    /// Number of stripes in a region, the unit of the intent record.
    pub region_stripes: u64,
    /// True if members have checksums.
    pub checksums: bool,
    /// True if the user of the volume verifies contents by checksums and, while members are missing, never
    /// writes stripes that hold data. Lost data are then computed even if a power cut came during a write of
    /// their stripe. Otherwise such data are rejected as doubtful.
    pub checked_above: bool,
}

impl Default for ShardSettings {
    fn default() -> ShardSettings {
        ShardSettings {
            merging: Merging::Adaptive,
            longest_hold: 1_000_000,
            member_depth: 64,
            region_stripes: 1024,
            checksums: false,
            checked_above: false,
        }
    }
}
