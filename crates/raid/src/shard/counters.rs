//! Counters of requests and member operations.

/// Counters of the array's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of read operations of members.
    pub reads: u64,
    /// Number of write operations of members.
    pub writes: u64,
    /// Number of blocks read from members.
    pub blocks_read: u64,
    /// Number of blocks written to members.
    pub blocks_written: u64,
    /// Number of writes of whole stripes.
    pub full: u64,
    /// Number of writes of parts of stripes.
    pub partial: u64,
    /// Number of times that held writes reached the maximum time.
    pub expired: u64,
    /// Number of unreadable or wrong blocks that were rewritten.
    pub repaired: u64,
    /// Number of reads by clients. A read that spans several shards counts once per shard.
    pub user_reads: u64,
    /// Number of writes by clients, counted in the same way.
    pub user_writes: u64,
    /// Number of blocks that clients read.
    pub user_blocks_read: u64,
    /// Number of blocks that clients wrote.
    pub user_blocks_written: u64,
    /// Number of blocks of the volume that were trimmed.
    pub trimmed: u64,
    /// Number of blocks of members whose contents did not match their checksums.
    pub corrupt: u64,
}

impl Counters {
    /// Returns the sum of both.
    pub fn plus(&self, other: &Counters) -> Counters {
        Counters {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            blocks_read: self.blocks_read + other.blocks_read,
            blocks_written: self.blocks_written + other.blocks_written,
            full: self.full + other.full,
            partial: self.partial + other.partial,
            expired: self.expired + other.expired,
            repaired: self.repaired + other.repaired,
            user_reads: self.user_reads + other.user_reads,
            user_writes: self.user_writes + other.user_writes,
            user_blocks_read: self.user_blocks_read + other.user_blocks_read,
            user_blocks_written: self.user_blocks_written + other.user_blocks_written,
            trimmed: self.trimmed + other.trimmed,
            corrupt: self.corrupt + other.corrupt,
        }
    }

    /// Returns the difference to an earlier state of the counters.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            blocks_read: self.blocks_read - before.blocks_read,
            blocks_written: self.blocks_written - before.blocks_written,
            full: self.full - before.full,
            partial: self.partial - before.partial,
            expired: self.expired - before.expired,
            repaired: self.repaired - before.repaired,
            user_reads: self.user_reads - before.user_reads,
            user_writes: self.user_writes - before.user_writes,
            user_blocks_read: self.user_blocks_read - before.user_blocks_read,
            user_blocks_written: self.user_blocks_written - before.user_blocks_written,
            trimmed: self.trimmed - before.trimmed,
            corrupt: self.corrupt - before.corrupt,
        }
    }
}
